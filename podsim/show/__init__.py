"""How answers look: a chart is data, which one renderer draws into files and another into pages."""
