"""What a Python file of the user defines: pipelines, with `pyspark.pipelines`, and functions.

auto_cdc: `create_auto_cdc_flow` in a pipeline's module
data_sources: Python data sources of users, as formats and as sinks
definitions: reads a module with `pyspark.pipelines`
function_code: the code that a flow's function depends on
late_session: the session in a pipeline's module
python_functions: the Python functions of a file, for SQL
"""
