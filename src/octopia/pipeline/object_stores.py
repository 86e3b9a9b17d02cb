"""Access to S3: one set of settings for Spark and for pyarrow, in this process and in the workers.

Spark's file system reads properties (``spark.hadoop.fs.s3a.…``), pyarrow reads AWS's environment variables (see
``octopia.workloads.places``). What is given as one is passed on as the other. A Spark Connect server and its workers
keep their own.
"""

from __future__ import annotations

from collections.abc import Mapping

_PREFIX = "spark.hadoop.fs.s3a."
_ENDPOINT, _REGION = f"{_PREFIX}endpoint", f"{_PREFIX}endpoint.region"
_VARIABLES = {
    f"{_PREFIX}access.key": "AWS_ACCESS_KEY_ID",
    f"{_PREFIX}secret.key": "AWS_SECRET_ACCESS_KEY",
    f"{_PREFIX}session.token": "AWS_SESSION_TOKEN",
    _ENDPOINT: "AWS_ENDPOINT_URL",
    _REGION: "AWS_REGION",
}


def variables_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that say the same as properties of Spark."""
    found = {name: properties[key] for key, name in _VARIABLES.items() if key in properties}
    endpoint = found.get("AWS_ENDPOINT_URL")
    if endpoint and "://" not in endpoint:
        is_plain = properties.get(f"{_PREFIX}connection.ssl.enabled", "true").lower() == "false"
        found["AWS_ENDPOINT_URL"] = f"{'http' if is_plain else 'https'}://{endpoint}"
    return found


def properties_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of Spark that say the same as environment variables, which executors get as well."""
    known = {name: environment[name] for name in _VARIABLES.values() if environment.get(name)}
    properties = {f"spark.executorEnv.{name}": value for name, value in known.items()}
    if endpoint := known.get("AWS_ENDPOINT_URL"):
        # Only Amazon's own endpoints have one name per bucket.
        properties |= {_ENDPOINT: endpoint, f"{_PREFIX}path.style.access": "true"}
    if region := known.get("AWS_REGION"):
        properties[_REGION] = region
    return properties
