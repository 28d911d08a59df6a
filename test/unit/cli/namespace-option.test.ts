import { expect, test } from 'vitest'
import { verbProgram } from '../../../src/cli/verbs.ts'

/** What names a service takes `-n` as kubectl does; for logs it has always been the number of lines. */
const named = ['status', 'stop', 'start', 'restart', 'evict', 'bring-back', 'delete', 'history']

const program = verbProgram(
  {
    io: {
      stdout: { write: () => true },
      stderr: { write: () => true },
      env: {},
      platform: 'linux',
      homeDir: '/home/nobody',
      temporaryDir: '/tmp',
      cwd: '/',
      windowFolder: '/',
    },
    defaultStateDir: '/state',
    end: () => undefined,
  },
  { modelStore: '/models', stateDir: '/state' },
)

const optionsOf = (name: string): readonly (string | undefined)[] =>
  program.commands
    .find((verb) => verb.name() === name)
    ?.options.filter(({ long }) => long === '--namespace' || long === '--lines')
    .map(({ flags }) => flags) ?? []

test.each(named)('%s takes the namespace of a service as -n or --namespace', (name) => {
  expect(optionsOf(name)).toEqual(['-n, --namespace <namespace>'])
})

test('logs takes --namespace, and -n stays the number of lines', () => {
  expect(optionsOf('logs')).toEqual(['-n, --lines <count>', '--namespace <namespace>'])
})

test('every verb that names a service is among these', () => {
  const naming = program.commands.filter((verb) => verb.registeredArguments.some((one) => one.name() === 'service'))
  expect(naming.map((verb) => verb.name()).sort()).toEqual([...named, 'logs'].sort())
})
