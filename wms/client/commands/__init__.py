"""The commands of ``wms``, one module for each group of them; ``wms.client.catalogue`` lists all."""
