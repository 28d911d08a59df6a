import fc from 'fast-check'
import { llamaServerFlags } from '../../src/agent-core/runtimes/llama-server-flags.ts'

const flags = [...llamaServerFlags.keys(), '--brand-new', '--', '-', 'all']
const allowedFlags = [...llamaServerFlags].flatMap(([flag, { verdict }]) => (verdict === 'allowed' ? [flag] : []))

/** Specs that try to get more of a machine than a model: known flags and unknown ones, odd spellings, paths in and out of `store`. */
export function hostileSpecs(store: string) {
  const value = fc.oneof(
    fc.constantFrom(
      '1',
      '-1',
      '0.5',
      'on',
      'all',
      '',
      '/etc/passwd',
      `${store}/a.gguf`,
      '/lent/b.gguf:0.5',
      '../x',
      'x=CPU',
    ),
    fc.constantFrom(`${store}/../x`, `${store}/a,/etc/b`, '--tools', '--log-file=/x', '/lent', '/', '{"command":"sh"}'),
    fc.string({ maxLength: 6 }),
  )
  const spelled = fc
    .tuple(fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...allowedFlags) }, fc.constantFrom(...flags)), fc.nat(5))
    .map(([flag, how]) => (how === 0 ? flag.replaceAll('-', '_').replace(/^__/, '--') : flag))
  const argument = fc.oneof(
    fc.tuple(spelled, value).map(([flag, given]) => [flag, given]),
    fc.tuple(spelled, value).map(([flag, given]) => [`${flag}=${given}`]),
    spelled.map((flag) => [flag]),
    value.map((given) => [given]),
  )
  const variable = fc.constantFrom(
    'LD_PRELOAD',
    'PATH',
    'LLAMA_ARG_TOOLS',
    'DYLD_X',
    'FOO',
    'GGML_BACKEND_PATH',
    'OMP_NUM_THREADS',
  )
  return fc.record(
    {
      extraArgs: fc.array(argument, { maxLength: 3 }).map((all) => all.flat()),
      env: fc.array(fc.record({ name: variable, value: fc.string({ maxLength: 4 }) }), { maxLength: 1 }),
      tensorOverrides: fc.array(value, { maxLength: 2 }),
      metadataOverrides: fc.array(value, { maxLength: 2 }),
      cacheTypeCustomK: value,
      reasoningBudget: fc.nat(3),
      reasoningBudgetMessage: value,
      contextSize: fc.constantFrom(128, 4096),
    },
    { requiredKeys: ['extraArgs'] },
  )
}
