"""Answers questions about connectors, so that a worker never imports a connector's code.

`python -m moldau.connect.plugins` reads one JSON object on stdin, and writes one on stdout. Exit code 0; a request that
is no JSON, or has another `do`, gets exit code 2 and a sentence on stderr.

    {"do": "list"}
        -> {"plugins": [{"class": "datagen", "type": "source", "version": "0.2.0"}, ...],
            "broken": {"name": "sentence"}}
           A class that is a source and a sink is listed twice. Converters, transforms and predicates have the types
           "converter", "header_converter", "transformation" and "predicate", and Kafka's names.
    {"do": "describe", "class": "datagen"}
        -> {"class", "reference": "module:Class", "types": ["source"], "version", "source_delivery", "sink_delivery",
            "reading": "streamReader" | "simpleStreamReader" | "reader" | null, "key_columns": [...],
            "row_columns", "has_split": true, "settings": [definition, ...]}
           Those of the class come first, then those that every connector has.
           The settings of a converter, a transform or a predicate too: {"class", "types", "version", "settings"}.
    {"do": "validate", "config": {...}, "defaults": {"value.converter": "..."}}
        -> {"name": "class", "error_count": 1, "groups": ["Common", ...], "configs": [{"definition": {...},
            "value": {"name", "value", "recommended_values": [...], "errors": [...], "visible": true}}, ...]}
           As Kafka Connect's REST API answers. `defaults`: of settings that the config lacks. A setting that no
           one knows is in `configs` too, with an error.
    {"do": "split", "config": {...}, "tasks": 3}
        -> {"configs": [{...}, ...], "type": "source" | "sink", "delivery": "exactly-once"}

A definition has ConfigDef's fields: name, type, required, default_value, importance, documentation, group, width,
display_name, dependents, order. An answer {"errors": {"setting": ["sentence", ...]}} says that the request cannot be
answered, such as for an unknown class.

__main__: the process of one question
answering: answers by the name of the question
asked: one question on stdin, its answer on stdout
parts: converters, transforms and predicates as plugins
validating: a configuration with all settings and their errors
"""
