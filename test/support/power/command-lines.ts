const samplers = ['--samplers', 'cpu_power,gpu_power']

/** The arguments that the rule of sudo names. */
export const exactArguments = ['1000', '10000'].map((ms) => [...samplers, '-i', ms])

/** What comes close to them, and must be refused. */
export const nearMisses: readonly (readonly string[])[] = [
  [],
  samplers,
  ['-i', '1000'],
  ['-i', '1000', ...samplers],
  [...samplers, '-i', '100'],
  [...samplers, '-i', '1001'],
  [...samplers, '-i', '01000'],
  [...samplers, '-i', '1000 '],
  [...samplers, '-i', '1000', ''],
  [...samplers, '-i', '1000\n'],
  [...samplers, '-i', '100000'],
  [...samplers, '-i', '1000', '-n', '1'],
  [...samplers, '-i', '1000', '-o', '/etc/any-file'],
  [...samplers, '-i', '1000', '--output-file', '/etc/any-file'],
  [...samplers, '-o', '/etc/any-file', '-i', '1000'],
  [...samplers, '-i', '10000', '-i', '1000'],
  ['--samplers', 'all', '-i', '1000'],
  ['--samplers', 'cpu_power,gpu_power,tasks', '-i', '1000'],
  ['--samplers', 'cpu_power', '-i', '1000'],
  ['--samplers', String.raw`cpu_power\,gpu_power`, '-i', '1000'],
  ['--SAMPLERS', 'cpu_power,gpu_power', '-i', '1000'],
]
