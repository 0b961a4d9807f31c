"""What the connectors of databases share. The statements hold quoted names only: each value is a parameter.

connector: the base of the connectors
dialect: what differs between databases, and a transaction of one
settings: the settings of the connectors
sink: writes the changes of a batch once
source: reads new rows of a table or a query, again and again
statements: the texts of statements
"""
