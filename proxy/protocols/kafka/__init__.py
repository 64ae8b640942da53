"""Kafka on the wire."""
