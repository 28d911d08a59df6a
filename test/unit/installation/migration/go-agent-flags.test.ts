import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parseRunArguments } from '../../../../src/cli/run-settings.ts'
import {
  goAgentFlags,
  keptFlags,
  leftOut,
  readGoAgentCommand,
} from '../../../../src/installation/migration/go-agent.ts'

const ofGoAgent = JSON.parse(readFileSync(new URL('../../cli/go-agent-flags.json', import.meta.url), 'utf8')) as Record<
  string,
  unknown
>

test('the flags of 0.9.19 are all there, with the defaults they have there', () => {
  const known = Object.fromEntries(Object.entries(goAgentFlags).map(([name, flag]) => [name, flag.default]))
  expect(known).toMatchObject(ofGoAgent)
})

test('what a plist says is kept in a form that our agent starts with', () => {
  const command = readGoAgentCommand([
    ...['--namespace', 'models', '-port=9091', '--eviction-enabled', '--memory-fraction', '0.8'],
    ...['--llama-server-startup-timeout', '5m', '--inference-service-allowlist', 'a,b', '--kube-context', 'lab'],
  ])
  const flags = keptFlags(command)
  expect(flags).toEqual([
    '--namespace=models',
    '--port=9091',
    '--eviction-enabled=true',
    '--memory-fraction=0.8',
    '--llama-server-startup-timeout=5m',
    '--inference-service-allowlist=a,b',
    '--kube-context=lab',
  ])
  const defaults = { modelStore: '/m', stateDir: '/s' }
  expect(parseRunArguments(flags, defaults, '/')).toMatchObject({
    kind: 'run',
    settings: { namespace: 'models', port: 9091, evictionEnabled: true, startupStallMs: 300_000, context: 'lab' },
  })
})

test('every flag that is kept by its name is one of ours', () => {
  const kept = Object.entries(goAgentFlags).filter(([, flag]) => flag.kept === true)
  const samples = { string: 'warn', bool: 'true', int: '1', float: '0.5', duration: '10s', bytes: '1Mi' }
  const special: Record<string, string> = {
    'host-ip': '192.0.2.1',
    runtime: 'omlx',
    'allowed-model-roots': '/a',
  }
  for (const [name, { kind }] of kept) {
    expect(
      parseRunArguments([`--${name}=${special[name] ?? samples[kind]}`], { modelStore: '/m', stateDir: '/s' }, '/')
        .kind,
    ).toBe('run')
  }
})

test('what is left out is said with the reason', () => {
  const command = readGoAgentCommand(['--max-watch-failures=5', '--state-dir', '~/y', 'stray', '--port', '1'])
  expect(leftOut(command)).toEqual([
    '--max-watch-failures is left out: a cluster that does not answer never ends this agent.',
    '--state-dir is left out: this agent keeps state of its own, and relays learn its key from the cluster.',
    '"stray --port 1" is left out: the Go agent ignored it, because it comes after a word that is not a flag.',
  ])
})

test.each([
  [['--host-ip 192.168.1.5'], '"--host-ip 192.168.1.5" is in one <string> and must be in two'],
  [['--memory-fracton', '1'], 'did you mean --memory-fraction?'],
  [['--port', 'http'], '--port wants a whole number, not "http"'],
])('a plist edited by hand: %j', (args, sentence) => {
  expect(() => readGoAgentCommand(args)).toThrow(sentence)
})
