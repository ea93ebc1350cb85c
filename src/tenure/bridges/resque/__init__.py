"""The bridge to Resque: its layout in Redis, its entries and its records."""
