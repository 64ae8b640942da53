# What the extension was built from, as setup.py hands it over; `fingerprint.py` looks for it.

cdef extern from *:
    """
    #ifndef VEIL_SOURCES
    #define VEIL_SOURCES unknown
    #endif
    #define VEIL_SPELLED(token) #token
    #define VEIL_TEXT(token) VEIL_SPELLED(token)
    static const char veil_sources[] = VEIL_TEXT(VEIL_SOURCES);
    """
    const char *veil_sources

SOURCES = veil_sources.decode("ascii")
