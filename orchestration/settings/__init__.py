"""What users of a pipeline set beside its topology: where the topology is, the settings of one run, names in Dagster.

In: text of a command, of a launchpad or of YAML. Out: what the engine takes, or one sentence that says what is wrong.
"""
