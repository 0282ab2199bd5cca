"""The brain that hosts a language model with vLLM, in a worker process of its own.

    front end (engine.py)  -- new messages, pictures once, cancel, commit -->  worker_main.py
                           <-- text, tool calls, usage, load ---------------  host.py -> AsyncLLM
                           -- touch a prefix --> <-- was it there ----------  refresh.py

Only this folder's worker side imports vLLM, and only in the worker process.
"""
