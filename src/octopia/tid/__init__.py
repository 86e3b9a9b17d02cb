"""The baseline: brokers that route by tree ids (paper section 2). ``core.TidBroker`` is the broker."""
