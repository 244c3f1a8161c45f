"""Changed topologies over old state: what the ledger keeps of the code, and whether stored rows keep their meaning.

In: the code snapshot of the last increment and the topology of today. Out: stores to carry on, to rename, to migrate
or to begin again, or a refusal with the reason. What another version of Kafka Streams changes for a topology is here
(``upgrade_advice``). Not here: running the migration's increment (``replay``).
"""
