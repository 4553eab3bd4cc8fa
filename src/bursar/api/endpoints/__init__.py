"""What each route does, once it is known who asks and that he may."""
