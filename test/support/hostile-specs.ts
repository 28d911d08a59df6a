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

const text = fc.oneof(
  fc.constantFrom(
    '',
    '../x',
    '--tools',
    '--log-file=/x',
    '$(id)',
    '\u202e',
    '\uFEFF'.repeat(200),
    '9'.repeat(5_000),
    's000'.repeat(1_000),
    '{% for a in b %}'.repeat(500),
  ),
  fc.string({ maxLength: 20 }),
)
const whole = fc.constantFrom(-1, 0, 1, 7, 2_147_483_647)
const anything = fc.jsonValue({ maxDepth: 3 })
const object = fc.dictionary(fc.string({ maxLength: 8 }), anything, { maxKeys: 4 })
const list = (item: fc.Arbitrary<unknown>) => fc.array(item, { maxLength: 4 })

const strangeNames = ['../../draft.gguf', '/etc/passwd', 'x'.repeat(253), '-rf', '$(touch /tmp/x)', 'a\u0000b']

/** Every other field that LLMKube's InferenceService has in v1alpha1, as its type allows; those that our agent does not read may hold anything. */
const otherFields: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  batchSize: fc.constantFrom(1, 16_384),
  uBatchSize: fc.constantFrom(1, 2_147_483_647),
  parallelSlots: fc.constantFrom(1, 64),
  moeCPULayers: fc.constantFrom(0, 2_147_483_647),
  turboQuantBits: fc.constantFrom(3, 6, 8),
  cacheTypeK: fc.constantFrom('f16', 'q4_0', 'iq4_nl'),
  cacheTypeV: fc.constantFrom('f16', 'q4_0', 'iq4_nl'),
  mode: fc.constantFrom('chat', 'embedding', 'rerank'),
  speculativeDecoding: fc.oneof(
    fc.record({ type: fc.constantFrom('draft', 'draft-eagle3'), draftModel: fc.constantFrom(...strangeNames) }),
    fc.record({ type: fc.constantFrom('draft-simple', 'mtp'), draftModelRef: fc.constantFrom(...strangeNames) }),
    fc.record({ type: fc.constantFrom('ngram-mod', 'none'), nDraftMax: fc.constantFrom(1, 2_147_483_647) }),
  ),
  priority: fc.constantFrom('critical', 'batch'),
  ropeScaling: fc.record({
    type: fc.constantFrom('linear', 'yarn', 'longrope'),
    factor: fc.constantFrom('0', '1', '9'.repeat(300), '0.000001'),
    originalContext: fc.constantFrom(128, 2_147_483_647),
  }),
  endpoint: fc.record({
    port: fc.constantFrom(1, 65_535),
    path: text,
    type: fc.constantFrom('ClusterIP', 'NodePort'),
    gateway: object,
  }),
  ...Object.fromEntries(
    ['flashAttention', 'jinja', 'moeCPUOffload', 'noKvOffload', 'noWarmup', 'evictionProtection'].map((name) => [
      name,
      fc.boolean(),
    ]),
  ),
  ...Object.fromEntries(
    [
      ...['cacheTypeCustomV', 'pagedSSDCacheDir', 'hotCacheMaxSize', 'pagedSSDCacheMaxSize', 'bindAddress', 'image'],
      ...['priorityClassName', 'runtimeClassName'],
    ].map((name) => [name, text]),
  ),
  ...Object.fromEntries(
    ['args', 'command', 'imagePullSecrets', 'extraVolumes', 'extraVolumeMounts', 'tolerations'].map((name) => [
      name,
      list(fc.oneof(text, anything)),
    ]),
  ),
  ...Object.fromEntries(
    ['maxPodLifetimeIdleTimeoutSeconds', 'maxPodLifetimeSeconds', 'revisionHistoryLimit', 'containerPort'].map(
      (name) => [name, whole],
    ),
  ),
  ...Object.fromEntries(
    [
      ...['affinity', 'autoscaling', 'disruption', 'modelCache', 'nodeSelector', 'personaPlexConfig', 'podAnnotations'],
      ...['podLabels', 'podSecurityContext', 'probeOverrides', 'resources', 'rolloutPolicy', 'securityContext', 'slo'],
      ...['sglangConfig', 'tgiConfig', 'topologySpreadConstraints', 'vllmConfig'],
    ].map((name) => [name, object]),
  ),
}

/** {@link hostileSpecs} with some of all the other fields, so that each one comes up among a few dozen. */
export function hostileWholeSpecs(store: string) {
  const others = fc
    .uniqueArray(fc.constantFrom(...Object.entries(otherFields)), {
      minLength: 4,
      maxLength: 12,
      selector: ([name]) => name,
    })
    .chain((few) => fc.record(Object.fromEntries(few)))
  return fc.tuple(hostileSpecs(store), others).map(([spec, more]) => ({ ...more, ...spec }))
}

/** Every field of LLMKube's Model beside its source. */
export function hostileModels(store: string) {
  return fc.record(
    {
      source: fc.constantFrom(`${store}/tiny.gguf`, `${store}/a.gguf`, `${store}/../x`, 'hf://a/b', 'pvc://a/b', store),
      format: fc.constantFrom('gguf', 'mlx', 'safetensors', 'pytorch', 'custom'),
      files: list(fc.constantFrom('a.gguf', '../x', 'M-00001-of-01000.gguf', 'tiny.gguf')),
      mmproj: fc.constantFrom('a.gguf', '../x', ''),
      quantization: text.map((one) => one.slice(0, 40)),
      sha256: fc.constantFrom('0'.repeat(64)),
      prefetch: fc.boolean(),
      prefetchTolerations: list(object),
      refreshPolicy: fc.constantFrom('IfNotPresent', 'OnChange'),
      resources: object,
      sourceSecretRef: fc.record({ name: fc.constantFrom('a', '../b', '$(id)') }),
      hardware: fc.record(
        {
          accelerator: fc.constant('metal'),
          gpu: fc.record({
            enabled: fc.boolean(),
            count: fc.constantFrom(0, 8),
            layers: fc.constantFrom(-1, 2_147_483_647),
            memory: text,
          }),
          memoryBudget: fc.constantFrom('1Gi', '9'.repeat(500), '-1', '1e999'),
          memoryFraction: fc.constantFrom(0, 0.5, 1e300),
        },
        { requiredKeys: ['accelerator'] },
      ),
    },
    { requiredKeys: ['source', 'hardware'] },
  )
}
