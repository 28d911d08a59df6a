import { expect, test } from 'vitest'
import { inferenceServiceSpec } from '../../../src/agent-core/kube/resources.ts'
import { leftOutNotice, environmentOf, environmentRefusal } from '../../../src/agent-core/reconcile/runtime-choice.ts'

const secret = { secretKeyRef: { name: 'hub', key: 'token' } }
const specOf = (...env: object[]) => inferenceServiceSpec.parse({ env })

test('only variables that a person allowed are passed on, and a person is told of the others', () => {
  const spec = specOf(
    { name: 'PLAIN', value: 'x' },
    { name: 'EMPTY' },
    { name: 'OTHER', value: 'y' },
    { name: 'GGML_METAL_BF16_DISABLE', value: '1' },
    { name: 'TOKEN', valueFrom: secret },
    { name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
  )
  const allowed = ['PLAIN', 'EMPTY']
  expect([environmentOf(spec, allowed), leftOutNotice(spec, allowed)]).toEqual([
    { PLAIN: 'x', EMPTY: '', GGML_METAL_BF16_DISABLE: '1' },
    'It runs without TOKEN, NODE of spec.env, whose valueFrom only a Pod can read: give a literal value if the server needs it. It runs without OTHER of spec.env: this machine allows variables by name, with --allowed-env.',
  ])
})

test('where every variable is passed on there is nothing to tell', () => {
  expect(leftOutNotice(specOf({ name: 'PLAIN', value: 'x' }), ['PLAIN'])).toBeUndefined()
})

test('a person is told of speculative decoding that is asked for and not passed on', () => {
  const notice = (type?: string, runtime?: 'mlx-lm') => {
    const spec = inferenceServiceSpec.parse({ speculativeDecoding: { ...(type !== undefined && { type }) } })
    return leftOutNotice(spec, [], runtime)
  }
  expect([notice(), notice('none'), notice('disabled'), notice('ngram-simple')]).toEqual(Array(4).fill(undefined))
  const slower = 'Its answers are the same, only slower.'
  expect([notice('draft-eagle3'), notice('ngram-simple', 'mlx-lm'), notice('draft-later'), notice('mtp')]).toEqual([
    `It runs without spec.speculativeDecoding (draft-eagle3), which names no draft weights: set its draftModelRef or draftModel. ${slower}`,
    `It runs without spec.speculativeDecoding (ngram-simple), which only llama-server supports. ${slower}`,
    `It runs without spec.speculativeDecoding (draft-later), a type that this agent does not know. ${slower}`,
    undefined,
  ])
})

test('a person is told of flags of a whole oMLX, which it does not get for one service', () => {
  const spec = inferenceServiceSpec.parse({ turboQuantBits: 'x', hotCacheMaxSize: '8GB', extraArgs: ['--a'] })
  expect([leftOutNotice(spec, [], 'omlx'), leftOutNotice(spec, [], 'mlx-lm')]).toEqual([
    'It runs without spec.turboQuantBits, spec.hotCacheMaxSize, spec.extraArgs: oMLX serves all its models with one set of flags, so set that in oMLX itself, on its page /admin at the port of --omlx-port.',
    undefined,
  ])
  expect(leftOutNotice(inferenceServiceSpec.parse({}), [], 'omlx')).toBeUndefined()
})

test.each([
  ['LD_PRELOAD', true],
  ['DYLD_INSERT_LIBRARIES', true],
  ['GGML_BACKEND_PATH', true],
  ['GGML_METAL_PATH_RESOURCES', true],
  ['LLAMA_ARG_MCP_SERVERS_JSON', true],
  ['LLAMA_ARG_CTX_SIZE', false],
  ['PATH', true],
  ['HOME', false],
  ['PYTHONSTARTUP', true],
  ['NODE_OPTIONS', true],
  ['BASH_ENV', true],
])('%s is never passed on, whatever a person allowed', (name, loadsCode) => {
  const spec = specOf({ name, value: 'x' })
  expect(environmentOf(spec, [name])).toEqual({})
  const refusal = environmentRefusal(spec)
  expect(refusal?.message).toContain(`spec.env: ${name} `)
  expect(refusal?.loadsCode).toBe(loadsCode)
})

test.each(['my.app-setting', 'FOO-BAR', 'A=B'])(
  'the unusual name %s is left out, and no reason to refuse or stop a server',
  (name) => {
    const spec = specOf({ name, value: 'x' })
    expect(environmentOf(spec, [])).toEqual({})
    expect(environmentRefusal(spec)).toBeUndefined()
    expect(leftOutNotice(spec, [])).toContain(`It runs without ${name} of spec.env`)
  },
)

test('a variable that only a Pod can read is no reason to refuse, whatever its name', () => {
  expect(environmentRefusal(specOf({ name: 'LD_LIBRARY_PATH', valueFrom: secret }))).toBeUndefined()
})
