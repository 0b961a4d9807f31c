"""Databases that sources and targets share.

iceberg: warehouse and catalogue of an Iceberg table
names: quoted names in SQL
postgresql: tables of PostgreSQL and connections
"""
