import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import type { ProcessFacts } from '../../../src/agent-core/platform/platform.ts'
import { serverDetails, type ServerDetailsSources } from '../../../src/agent-core/api/server-queries.ts'

const service = { namespace: 'default', name: 'qwen' }
const ready = { kind: 'ready', since: 0, readySince: 0, pid: 4711, port: 8081, healthy: true } as const

test('the command line can be pasted into a shell, and hides secrets', async () => {
  const command = ['/usr/bin/printf', '%s\\n', "it's /a b.gguf", '--api-key', 'sesame', '--hf-token=open', '']
  const { commandLine = '' } = await serverDetails(sources({ commandOf: () => command }), service)
  expect(execFileSync('/bin/sh', ['-c', commandLine]).toString().split('\n')).toEqual([
    "it's /a b.gguf",
    '--api-key',
    'hidden',
    '--hf-token=hidden',
    '',
    '',
  ])
})

test('a command line that is too long to be shown whole is not to be pasted', async () => {
  const command = ['llama-server', '--chat-template', 'x; y '.repeat(4_000)]
  const { commandLine = '', isUnquoted } = await serverDetails(sources({ commandOf: () => command }), service)
  expect([commandLine.length < 17_000, isUnquoted]).toEqual([true, true])
})

test('where no ledger has the arguments of a server the system is asked, and what it cannot say is said', async () => {
  const facts = { commandLine: '/bin/llama-server --model /a b.gguf --api-key sesame' } as ProcessFacts
  expect(await serverDetails(sources({ facts }), service)).toEqual({
    commandLine: '/bin/llama-server --model /a b.gguf --api-key hidden',
    isUnquoted: true,
    crashLines: [],
  })
})

test.each([
  [['--api_key', 'sesame'], '--api_key hidden'],
  [['--hf_token=open'], '--hf_token=hidden'],
  [['-hft', 'open', '-v'], '-hft hidden -v'],
  [['--mcp-servers-json', '{"env":{"KEY":"sesame"}}'], '--mcp-servers-json hidden'],
  [['--api-key-file', '/keys'], '--api-key-file /keys'],
  [['-mu', 'https://me:sesame@host/a.gguf'], '-mu https://hidden@host/a.gguf'],
  [['--model_url=https://host/a.gguf?X-Signature=sesame&b=@'], "'--model_url=https://host/a.gguf?hidden'"],
  [['-mmu', 'me:a?b@host/a.gguf'], '-mmu hidden@host/a.gguf'],
  [['-mu', 'https://host/a@b.gguf'], '-mu https://host/a@b.gguf'],
])('of %j a person sees %s', async (words, expected) => {
  const { commandLine } = await serverDetails(sources({ commandOf: () => ['llama-server', ...words] }), service)
  expect(commandLine).toBe(`llama-server ${expected}`)
})

test.each([
  ['--api-key open  sesame --port 80', '--api-key hidden --port 80'],
  ['--api_key=open sesame -v', '--api_key=hidden -v'],
  ['--mcp-servers-json { "KEY": "sesame" }', '--mcp-servers-json hidden'],
  ['--api-key -open sesame -v', '--api-key hidden -v'],
  ['--hf-token open --api-key=open --hf_token open sesame', '--hf-token hidden --api-key=hidden --hf_token hidden'],
  ['-mu https://me:open sesame@host/a b.gguf?sig=open sesame -v', '-mu https://hidden@host/a b.gguf?hidden -v'],
])('of a found server with %s a person sees %s', async (words, expected) => {
  const facts = { commandLine: `llama-server ${words}` } as ProcessFacts
  const { commandLine } = await serverDetails(sources({ facts }), service)
  expect(commandLine).toBe(`llama-server ${expected}`)
})

test('without a process there is no command line, and the last 40 lines of a crash are clean and cut', async () => {
  const tail = [
    ...Array.from({ length: 50 }, (_, index) => `line ${index + 1}`),
    `\u202eevil\u0007${'x'.repeat(5_000)}`,
  ]
  const { crashLines, ...rest } = await serverDetails(sources({ state: undefined, tail }), service)
  const last = crashLines.at(-1) ?? ''
  expect({
    rest,
    count: crashLines.length,
    first: crashLines[0],
    last: last.slice(0, 8),
    size: last.length < 1_100,
  }).toEqual({
    rest: {},
    count: 40,
    first: 'line 12',
    last: ' evil xx',
    size: true,
  })
})

interface Told {
  readonly state?: typeof ready | undefined
  readonly commandOf?: ServerDetailsSources['servers']['commandOf']
  readonly facts?: ProcessFacts
  readonly tail?: readonly string[]
}

function sources(told: Told): ServerDetailsSources {
  const lastFailure = told.tail && {
    ...({ kind: 'exited', since: 0, code: 1, signal: null, cause: 'itself', outOf: 'start', failures: 1 } as const),
    ...{ message: 'It ended.', settled: true, tail: told.tail },
  }
  return {
    servers: {
      get: () => ('state' in told ? told.state : ready),
      commandOf: told.commandOf ?? (() => undefined),
      lastFailure: () => lastFailure,
    },
    platform: { process: () => Promise.resolve(told.facts) },
  }
}
