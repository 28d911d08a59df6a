/**
 * How many bytes Metal recommends to keep in GPU memory at most, in bytes, as llama-server writes it: in the log of a
 * start (`ggml_metal_device_init: recommendedMaxWorkingSetSize  = 103079.22 MB`, millions of bytes) or in the answer to
 * `--list-devices` (`Metal: Apple M4 Max (98304 MiB, 98303 MiB free)`; newer ones call the device `MTL0`). The smallest
 * where several are named; undefined where none is, since macOS publishes no rule from which it could be worked out.
 */
export function parseRecommendedWorkingSet(text: string): number | undefined {
  const fromLog = [...text.matchAll(/\brecommendedMaxWorkingSetSize\s*=\s*(\d+(?:\.\d+)?) MB\b/g)].map(
    ([, megabytes]) => Math.round(Number(megabytes) * 1e6),
  )
  const fromList = [...text.matchAll(/^[ \t-]*(?:Metal|MTL)\d*\s*: .*\((\d+) MiB, \d+ MiB free\)[ \t\r]*$/gm)].map(
    ([, mebibytes]) => Number(mebibytes) * 2 ** 20,
  )
  const found = [...fromLog, ...fromList].filter((bytes) => Number.isSafeInteger(bytes) && bytes > 0)
  return found.length === 0 ? undefined : Math.min(...found)
}
