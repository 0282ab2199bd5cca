"""Where prefixes stop surviving: sessions revisited in a fixed cyclic order."""
