"""The data source ``octopia`` for Spark, which looks for it in packages whose names begin with ``pyspark_``.

So ``spark.readStream.format("octopia")`` works in every session, without registering anything. The implementation is
``octopia.pipeline.spark_source``.
"""

from octopia.pipeline.spark_source import OctopiaSource as DefaultSource

__all__ = ["DefaultSource"]
