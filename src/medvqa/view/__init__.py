"""`medvqa view`: a server on this machine that shows run folders by the app of the pages, and follows running sessions.

It reads run folders and writes nothing but reviews. Entry point: `serve.serve`. What it sends is declared in `shapes`.
"""
