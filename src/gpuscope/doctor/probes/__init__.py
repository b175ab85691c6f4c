"""What libraries tell, each asked in a process of its own: `python -m gpuscope.doctor.probes.NAME`
prints one JSON object on its last line. A probe imports only the library that it asks."""
