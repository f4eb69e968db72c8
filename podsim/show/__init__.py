"""How results look: tables, charts and files; a table and a chart are data that renderers draw."""
