"""llama.cpp's server out of the PyPI wheel xllamacpp, under the flags of llama-server that Metalbar's agent passes."""

import argparse
import signal
import sys

import xllamacpp

# Flag of llama-server, and the field of xllamacpp.CommonParams that takes its number.
NUMBERS = {
    ("-c", "--ctx-size"): "n_ctx",
    ("-np", "--parallel"): "n_parallel",
    ("-ngl", "--n-gpu-layers"): "n_gpu_layers",
    ("-b", "--batch-size"): "n_batch",
    ("-ub", "--ubatch-size"): "n_ubatch",
    ("-cram", "--cache-ram"): "cache_ram_mib",
    ("-n", "--predict"): "n_predict",
    ("--sleep-idle-seconds",): "sleep_idle_seconds",
}
FLASH_ATTENTION = {
    "auto": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}


def parser():
    flags = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    flags.add_argument("--version", action="version", version=f"version: {xllamacpp.__version__} (xllamacpp)")
    flags.add_argument("-m", "--model", required=True, help="path of a GGUF file")
    flags.add_argument("-a", "--alias", help="name of the model in answers")
    flags.add_argument("--host", default="127.0.0.1", help="address to listen at")
    flags.add_argument("--port", type=int, default=8080, help="port to listen at")
    flags.add_argument("-t", "--threads", type=int, help="threads that compute")
    flags.add_argument("-fa", "--flash-attn", choices=FLASH_ATTENTION, default="auto", help="flash attention")
    flags.add_argument("--metrics", action="store_true", help="serve /metrics")
    flags.add_argument("--no-slots", action="store_true", help="do not serve /slots")
    flags.add_argument("--cors-origins", help="origins whose pages may ask")
    flags.add_argument("--no-warmup", action="store_true", help="do not compute before the first request")
    flags.add_argument("--temp", type=float, help="temperature of sampling")
    flags.add_argument("--jinja", action="store_true", help="use the model's chat template, as without it")
    for names, field in NUMBERS.items():
        flags.add_argument(*names, dest=field, type=int)
    return flags


def params_of(given):
    params = xllamacpp.CommonParams()
    params.model.path = given.model
    params.hostnames = [given.host]
    params.port = given.port
    params.flash_attn_type = FLASH_ATTENTION[given.flash_attn]
    params.endpoint_metrics = given.metrics
    params.endpoint_slots = not given.no_slots
    params.warmup = not given.no_warmup
    if given.alias is not None:
        params.model_alias = {given.alias}
    if given.threads is not None:
        params.cpuparams.n_threads = given.threads
    if given.cors_origins is not None:
        params.cors_origins = given.cors_origins
    if given.temp is not None:
        params.sampling.temp = given.temp
    for field in NUMBERS.values():
        if getattr(given, field) is not None:
            setattr(params, field, getattr(given, field))
    return params


def main():
    ends = {signal.SIGTERM, signal.SIGINT}
    given = parser().parse_args()
    # Blocked here and so in every thread of the server, which therefore leaves them to sigwait.
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        server = xllamacpp.Server(params_of(given))
    except (RuntimeError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"server is listening on {server.listening_address}", flush=True)
    signal.sigwait(ends)


main()
