"""Renderers: each shows a report and computes nothing."""
