import { darwinCommands } from '../../agent-core/platform/darwin.ts'
import { coreLevels, knownLevels } from '../../agent-core/platform/darwin-cores.ts'
import { parseDisplays } from '../../agent-core/platform/darwin-output.ts'
import { findLlamaServer } from '../../agent-core/runtimes/binary.ts'
import { judged, notAsked, notHere, printed, type Check } from './check.ts'

const cores: Check = {
  id: 'cores',
  asks: 'the levels of cores have names, and those that save power are not counted',
  expected: 'Super, Performance, Efficiency or Standard, each with its number',
  isForMacs: true,
  answer: async ({ run, platform }) => {
    const levels = await coreLevels(async (name) => (await run(darwinCommands.sysctl, ['-n', name])).stdout)
    const performance = await platform.performanceCores()
    const isKnown = levels.every(({ name, cores }) => knownLevels.includes(name) && cores !== undefined)
    const told = levels.map(({ name, cores }) => `${name || 'no name'} ${cores ?? 'without a number'}`)
    const found = `${told.join(', ') || 'no level'}: ${performance ?? 'unknown'} count`
    return judged(isKnown && levels.length > 0 && performance !== undefined, found)
  },
}

const metal: Check = {
  id: 'metal',
  asks: 'system_profiler says in JSON that the GPU has Metal',
  expected: 'a key that the agent knows',
  isForMacs: true,
  answer: async ({ run }) => {
    const answer = await run(darwinCommands.systemProfiler, ['SPDisplaysDataType', '-json'])
    const all = [...answer.stdout.matchAll(/"(spdisplays_\w+)" *: *"(\w*)"/gi)]
    const seen = all.filter(([, key = '']) => /metal|mtl/i.test(key))
    const found = seen.map(([, key, value]) => `${key} ${value}`).join(', ')
    return judged(parseDisplays(answer.stdout) === true, found || printed(answer))
  },
}

/** Longest path of a unix socket on macOS that the agent uses. */
const socketBytes = 100

const temporaryFolder: Check = {
  id: 'temporary-folder',
  asks: 'TMPDIR is the folder of this user, also under ssh and launchd',
  expected: 'as getconf says, short enough for a socket',
  isForMacs: true,
  answer: async ({ run, env }) => {
    const { stdout } = await run('/usr/bin/getconf', ['DARWIN_USER_TEMP_DIR'])
    const [given, own] = [env['TMPDIR'], stdout.trim()]
    if (own === '') return notAsked('getconf does not say')
    const started = env['SSH_CONNECTION'] === undefined ? 'not over ssh' : 'over ssh'
    const service = env['XPC_SERVICE_NAME'] ?? '0'
    const by = service === '0' ? 'from a terminal' : `by launchd as ${service}`
    const is = given === undefined ? 'not set' : plain(given) === plain(own) ? 'the same' : 'another'
    const isShort = Buffer.byteLength(own) < socketBytes - 30
    return judged(is === 'the same' && isShort, `${is}, ${Buffer.byteLength(own)} bytes, ${started}, ${by}`)
  },
}

const plain = (folder: string): string => folder.replace(/^\/private/, '').replace(/(?<!\/)\/+$/, '')

const llamaServer: Check = {
  id: 'llama-server',
  asks: 'which llama-server serves models where no flag names one',
  expected: 'a program that Homebrew or PATH has',
  isForMacs: false,
  answer: async ({ platform, env }) => {
    const binary = await findLlamaServer({ system: platform.name, path: env['PATH'] })
    return binary.kind === 'found' ? judged(true, binary.path) : notHere(binary.message)
  },
}

export const machineChecks: readonly Check[] = [cores, metal, llamaServer, temporaryFolder]
