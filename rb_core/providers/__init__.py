"""Providers that come with the package."""
