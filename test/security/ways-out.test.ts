import { chown, mkdir, readdir } from 'node:fs/promises'
import { execa } from 'execa'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { EventRecorder } from '../../src/agent-core/kube/event-recorder.ts'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { parseInferenceService } from '../../src/agent-core/kube/resources.ts'
import { conditionsChange, metalAgentCondition } from '../../src/agent-core/kube/status-writer.ts'
import { judgeStoreFolder } from '../../src/agent-core/models/store/watch.ts'
import { createLog } from '../../src/agent-core/observability/log.ts'
import { composeSnapshot } from '../../src/agent-core/agent/snapshot.ts'
import { previousContextSentence } from '../../src/agent-core/cluster/cluster-link.ts'
import { terminalOf } from '../../src/cli/io.ts'
import { addressWords } from '../../src/renderer/words/services.ts'
import { cleanedDoor } from '../../src/serve/agent-door.ts'
import { RecordingDoor } from '../support/carriers/recording-door.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleService, sampleSnapshot } from '../support/sample-snapshot.ts'
import { silentLog } from '../support/silent-log.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

afterEach(() => void vi.unstubAllEnvs())

/** What a name, a server's output or a redirect may carry: it retitles and clears a terminal, hides text and turns it round. */
const hostile = 'start\u001b]0;owned\u0007\u001b[2J\u001b[8mhidden\u009b31m\r\n\u202egpj.exe\u2066x\u2028end'
const steering = /[^\P{Cc}\n]|[\p{Bidi_Control}\u2028\u2029]/u

describe('a text of somebody else steers nobody', () => {
  test('on a terminal, whatever a verb prints; colours and the erasing of a line of our own stay', () => {
    const written: string[] = []
    const terminal = terminalOf({ isTTY: true, write: (text: string) => written.push(text) })
    terminal.write(`${hostile}\n`)
    terminal.write('\u001b[32mready\u001b[39m\tx\n\r\u001b[K10 %')
    const [first = '', second] = written
    expect(first).not.toMatch(steering)
    expect(first).toMatch(/^start .*hidden.*end\n$/s)
    expect(second).toBe('\u001b[32mready\u001b[39m\tx\n\r\u001b[K10 %')
  })

  test('in a condition', () => {
    const service = parseInferenceService({
      metadata: { name: 'tiny', namespace: 'ns', uid: '1', resourceVersion: '1' },
    })
    const wanted = {
      type: metalAgentCondition,
      status: 'False',
      reason: 'Refused',
      message: hostile.repeat(100),
    } as const
    const [condition] = conditionsChange(service, [wanted], new Date(0)) ?? []
    expect(condition?.message).not.toMatch(steering)
    expect(Buffer.byteLength(condition?.message ?? '')).toBeLessThanOrEqual(1_024)
    const said = { ...service, status: { ...service.status, conditions: condition ? [condition] : [] } }
    expect(conditionsChange(said, [wanted], new Date(1))).toBeUndefined()
  })

  test('in an Event, whose message the API server takes', async () => {
    await using sim = await KubeSim.start()
    await using folder = await temporaryFolder()
    const file = await writeKubeconfig(`${folder.dir}/kubeconfig`, sim.connection())
    const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
    const recorder = new EventRecorder({ api, log: silentLog, host: 'mac' })
    const about = parseInferenceService({
      metadata: { name: 'tiny', namespace: 'default', uid: '1', resourceVersion: '1' },
    }).metadata
    recorder.record(about, { type: 'Warning', reason: 'Refused', message: `${hostile} ${'漢'.repeat(1_000)}` })
    await recorder.flush()
    const [event] = sim.list('events')
    const { message } = z.looseObject({ message: z.string() }).parse(event)
    expect(message).toMatch(/^start .*漢…$/)
    expect(message).not.toMatch(steering)
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1_024)
  })

  test.each([true, false])('in a log line (on a terminal: %s)', (isTTY) => {
    vi.stubEnv('NO_COLOR', '1')
    const lines: string[] = []
    const log = createLog({ level: 'info', stream: { isTTY, write: (text) => lines.push(text) } })
    log.info('command', { message: hostile, error: new Error(hostile), nested: { list: [hostile] } })
    log.info(hostile)
    for (const line of lines) expect(line.replace(/\n$/, '')).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u)
    expect(lines).toHaveLength(2)
  })

  test('on a page, in what it follows', () => {
    const { revision: _revision, ...service } = sampleService({ message: hostile, model: hostile })
    const unsaid = { memory: undefined, memoryFigures: undefined, power: undefined, powerFigures: undefined }
    const rest = { ...unsaid, downloads: [], newestHistoryId: 0, figures: {}, startedAt: 0, now: 0 }
    const { bootId, version, host, cluster } = sampleSnapshot()
    const snapshot = composeSnapshot(undefined, {
      ...{ bootId, version, ...rest },
      host: { ...host, message: hostile },
      cluster: { ...cluster, message: hostile },
      services: [service],
      notices: [hostile],
    })
    expect(textsIn(snapshot).filter((text) => steering.test(text))).toEqual([])
    expect(snapshot.services[0]?.message).toMatch(/^start .*end$/)
  })

  test('on a page, in what it asks for', async () => {
    const door = new RecordingDoor()
    door.onCommand = () => Promise.resolve({ outcome: 'refused', by: 'agent', message: hostile })
    door.onQuery = () => Promise.resolve({ entries: [], hasMore: false, kubeconfig: hostile, contexts: [] })
    const cleaned = cleanedDoor(door)
    const requestId = crypto.randomUUID()
    const answers = [
      await cleaned.command({ requestId, command: { name: 'resync' } }),
      await cleaned.query({ name: 'contexts' }),
    ]
    expect(textsIn(answers).filter((text) => steering.test(text))).toEqual([])
  })
})

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

describe('a line that a person is to paste into a shell has each name as one word', () => {
  const name = "it's $(touch ran); `touch ran` x"

  /** What its programs are given, one word a line. */
  async function pasted(line: string): Promise<string[]> {
    await using folder = await temporaryFolder()
    const programs = ['metal-agent', 'sudo', 'curl'].map((one) => `alias ${one}="printf '%s\\\\n'"`)
    const { stdout } = await execa('sh', ['-c', `${programs.join('\n')}\n${line}`], { cwd: folder.dir })
    expect(await readdir(folder.dir)).toEqual([])
    return stdout.split('\n')
  }

  test('a context and a kubeconfig', async () => {
    const said = previousContextSentence({ name, file: `/${name}` }, { now: 'prod', kubeconfig: undefined })
    const [, first = '', second = ''] = / was served before: to go back, run (.*), and then (.*)\.$/s.exec(said) ?? []
    expect(await pasted(first)).toEqual(['settings', 'set', 'kubeconfig', `/${name}`])
    expect(await pasted(second)).toEqual(['context', 'use', name])
  })

  test.skipIf(process.getuid?.() !== 0)('the folder of a store', async () => {
    await using folder = await temporaryFolder()
    const store = `${folder.dir}/${name}`
    await mkdir(store)
    await chown(store, 12_345, 12_345)
    const { problem } = await judgeStoreFolder(store, { uid: 77, username: 'anna' })
    const [, line = ''] = / with "(sudo .*)", or choose /s.exec(problem?.message ?? '') ?? []
    expect(await pasted(line)).toEqual(['chown', '-R', 'anna', store])
  })

  test('the address of a service', async () => {
    const [first] = await pasted(addressWords.curl(`http://h/${name}`))
    expect(first).toBe(`http://h/${name}/v1/chat/completions`)
  })
})
