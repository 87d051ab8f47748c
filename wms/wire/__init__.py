"""What the server and the programs that it hands out must do alike: version, protocol, amounts.

Agent, client and gateway contain this package (``wms.kernel.one_file_programs``): it needs only the standard library of
Python 3.9, and its modules import each other relatively, because in the client it is ``wms_client.wire``. In the
repository the client reaches it by a symbolic link (ADR 68).
"""
