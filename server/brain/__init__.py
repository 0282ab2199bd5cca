"""The brain tier: the conversation kept on the server, and the engines that continue it."""
