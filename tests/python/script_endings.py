"""Scripts that end in every way a script can. Each begins under a line with its name."""

from __future__ import annotations

import re

TEXT = """
### returns
print('out')

### raises
def fail():
    raise ValueError('boom')
fail()

### raises from another
try:
    1 / 0
except ZeroDivisionError as error:
    raise KeyError('k') from error

### raises a group
raise ExceptionGroup('many', [ValueError(1), TypeError(2)])

### is no python
x = = 1

### imports what is not there
import nothing_of_that_name

### exits
import sys
sys.exit()

### exits with a code
import sys
sys.exit(7)

### exits with a large code
import sys
sys.exit(256 + 5)

### exits with words
import sys
sys.exit('bye')

### exits with None
raise SystemExit(None)

### exits with True
raise SystemExit(True)

### runs out of memory
raise MemoryError

### is interrupted
import os, signal
os.kill(os.getpid(), signal.SIGINT)
while True: pass

### interrupts itself
raise KeyboardInterrupt

### is terminated
import os, signal, time
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)

### is hung up on
import os, signal, time
os.kill(os.getpid(), signal.SIGHUP)
time.sleep(60)

### is terminated inside try
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
except BaseException:
    print('caught')
finally:
    print('finally')

### handles its termination
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
os.kill(os.getpid(), signal.SIGTERM)

### ignores its termination
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGTERM)

### has its own excepthook
import sys
sys.excepthook = lambda *_: print('hook', *_[:2])
raise ValueError('boom')

### has a broken excepthook
import sys
sys.excepthook = lambda: None
raise ValueError('boom')

### has an excepthook that raises
import sys
def hook(*_):
    raise OSError(sys.exc_info())
sys.excepthook = hook
raise ValueError('boom')

### has an excepthook that exits
import sys
sys.excepthook = lambda *_: sys.exit(6)
raise ValueError('boom')

### has a thread that fails
import threading
thread = threading.Thread(target=lambda: 1 / 0, name='worker')
thread.start()
thread.join()

### says goodbye at exit
import atexit
atexit.register(print, 'goodbye')
raise ValueError

### waits for a thread
import threading, time
def work():
    time.sleep(0.3)
    print('worked')
threading.Thread(target=work).start()
print('main is done')

### leaves a pool open
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
print(pool.submit(pow, 2, 3).result())

### closes its streams
import sys
sys.stdout.close()
sys.stderr.close()

### replaces its streams
import sys, io
sys.stdout = sys.stderr = io.StringIO()
print('lost')

### leaves its folder
import os, tempfile
os.chdir(tempfile.mkdtemp())

### breaks its path
import sys
sys.path.clear()
sys.modules['rich'] = None
print('broken')
"""

ENDINGS = dict(re.findall(r"^### (.+)\n((?:(?!###).*\n)+)", TEXT, re.MULTILINE))
