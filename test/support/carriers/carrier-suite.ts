import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { LinkError, lookers } from '../../../src/contract/client.ts'
import {
  command as commandSchema,
  trustOf,
  type CommandInput,
  type CommandName,
  type CommandResult,
} from '../../../src/contract/commands.ts'
import type { AnswerPiece } from '../../../src/contract/ask.ts'
import type { LogChunk } from '../../../src/contract/log.ts'
import type { Answer, Query, QueryInput, QueryName } from '../../../src/contract/queries.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import type { Carrier, RunningCarrier } from './carrier.ts'
import { Heard } from './heard.ts'
import { RecordingDoor } from './recording-door.ts'
import { eventually } from '../eventually.ts'
import { sampleSnapshot } from '../sample-snapshot.ts'

const at = '2026-01-02T03:04:05.000Z'
const service = { namespace: 'default', name: 'qwen' }

/** Each command as a client may write it, without the optional fields. */
const commands: { readonly [N in CommandName]: Extract<CommandInput, { name: N }> } = {
  stop: { name: 'stop', service },
  start: { name: 'start', service },
  restart: { name: 'restart', service },
  evict: { name: 'evict', service },
  bringBack: { name: 'bringBack', service },
  protect: { name: 'protect', service, protect: true },
  cancelDownload: { name: 'cancelDownload', service },
  skipDrain: { name: 'skipDrain', service },
  resync: { name: 'resync' },
  pauseNode: { name: 'pauseNode' },
  resumeNode: { name: 'resumeNode' },
  selectContext: { name: 'selectContext', context: 'lab «zwei» ✓' },
  reloadKubeconfig: { name: 'reloadKubeconfig' },
  setHostAddress: { name: 'setHostAddress', address: '192.168.1.20' },
  updateSettings: { name: 'updateSettings', settings: { drainLimitMs: null, logLevel: 'debug' } },
  pullModel: { name: 'pullModel', source: 'hf://org/tiny' },
  cancelPull: { name: 'cancelPull', model: 'tiny' },
  removeModel: { name: 'removeModel', model: 'tiny' },
  pruneModels: { name: 'pruneModels' },
  applyModel: {
    name: 'applyModel',
    application: { namespace: 'default', name: 'tiny', source: 'hf://org/tiny', contextSize: 8_192 },
  },
  deleteModel: { name: 'deleteModel', service, uid: 'uid-1' },
  setContextSize: { name: 'setContextSize', service, contextSize: 4_096 },
  shutdown: { name: 'shutdown' },
}

const results: readonly CommandResult[] = [
  { outcome: 'done', message: 'Done.' },
  { outcome: 'accepted', message: 'Begun.' },
  { outcome: 'refused', by: 'agent', message: 'No.' },
  {
    outcome: 'refused',
    by: 'cluster',
    message: 'inferenceservices is forbidden',
    instead: { command: { name: 'stop', service, scope: 'here' }, label: 'Stop only here' },
  },
  { outcome: 'refused', by: 'cluster', message: 'models is forbidden', yaml: 'kind: Model\n---\nkind: "In"\n' },
  { outcome: 'failed', message: 'Tried.' },
]

const chunk: LogChunk = {
  lines: ['first', '', 'ümläut \u2028 and "quotes"'],
  start: { fileId: 'run-1', offset: 10 },
  end: { fileId: 'run-1', offset: 70 },
  gap: 'Skipped 2 lines.',
}

interface Question<N extends QueryName> {
  readonly ask: Extract<QueryInput, { name: N }>
  readonly asked: Extract<Query, { name: N }>
  readonly answer: Answer<N>
}

/** Of some: with defaults, with what is withdrawn, and with texts and numbers of every kind. */
const questions: { readonly [N in 'history' | 'log' | 'server' | 'settings' | 'contexts' | 'fit']: Question<N> } = {
  history: {
    ask: { name: 'history', service },
    asked: { name: 'history', service, limit: 50 },
    answer: { entries: [{ id: 7, at, kind: 'crashed', service, message: 'It crashed.' }], hasMore: true },
  },
  log: {
    ask: { name: 'log', service, before: { fileId: 'run-1', offset: 70 } },
    asked: { name: 'log', service, run: 'current', lines: 200, before: { fileId: 'run-1', offset: 70 } },
    answer: chunk,
  },
  server: {
    ask: { name: 'server', service },
    asked: { name: 'server', service },
    answer: { commandLine: "llama-server --model '/a b.gguf'", isUnquoted: true, crashLines: ['error: no', ''] },
  },
  settings: {
    ask: { name: 'settings' },
    asked: { name: 'settings' },
    answer: {
      settings: [{ name: 'namespace', value: null, from: 'default' }],
      start: [
        {
          ...{ name: 'portRange', section: 'Network', title: 'Ports', help: 'A range.', value: '', from: 'default' },
          ...{ flag: '--port-range=30000-30099', line: '"portRange": {"from":30000,"to":30099}' },
        },
      ],
      startFile: '/state/start-settings.json',
    },
  },
  contexts: {
    ask: { name: 'contexts' },
    asked: { name: 'contexts' },
    answer: {
      kubeconfig: '/home/me/.kube/config',
      contexts: [{ name: 'lab', server: 'https://10.0.0.1:6443', inUse: true, isDefault: false }],
    },
  },
  fit: {
    ask: { name: 'fit', source: 'hf://org/tiny', contextSize: 4_096 },
    asked: { name: 'fit', source: 'hf://org/tiny', contextSize: 4_096 },
    answer: {
      kind: 'model',
      source: 'hf://org/tiny',
      architecture: 'llama',
      parameters: 8e9,
      sizeBytes: 5e9,
      isStored: false,
      files: [{ path: 'a.gguf', source: 'hf://org/tiny/a.gguf', sizeBytes: 5e9, quantization: 'Q4_K_M', parts: 1 }],
      contextSize: 4_096,
      slots: 4,
      items: { weights: 5e9, kv: 1e9, compute: 1, promptCache: 2, mmproj: 0, overhead: 3 },
      totalBytes: 6e9 + 6,
      notes: ['It is long.'],
      verdict: 'afterUnloading',
      message: 'It fits then.',
      unload: [{ ...service, freesBytes: 4e9 }],
      ways: [{ kind: 'change', sentence: 'Use less.', change: { contextSize: 2_048 } }],
      contexts: [{ contextSize: 2_048, totalBytes: 5e9, kvBytes: 5e8, verdict: 'fits' }],
      room: { budgetBytes: 8e9, committedBytes: 4e9, availableBytes: 9e9 },
    },
  },
}

/** What every carrier has to do, tested on each of these. */
export function testCarriers(carriers: readonly Carrier[]): void {
  describe.each(carriers)('over $name', ({ start, trust }) => {
    let door: RecordingDoor
    let carrier: RunningCarrier
    beforeEach(async () => {
      door = new RecordingDoor()
      carrier = await start(door)
    })
    afterEach(async () => carrier[Symbol.asyncDispose]())

    test('the snapshot is the one of the agent, as of now', async () => {
      const before = new Date().toISOString()
      const snapshot = await carrier.link.snapshot()
      expect([snapshot, snapshot.now >= before]).toEqual([{ ...sampleSnapshot(), now: snapshot.now }, true])
    })

    test('every command that it may carry reaches the agent as it was meant, with its request id', async () => {
      const asked = Object.values(commands)
        .filter((command) => trust === 'shell' || trustOf(commandSchema.parse(command)) === 'page')
        .map((command) => ({ requestId: randomUUID(), command }))
      const answers = []
      for (const { requestId, command } of asked) answers.push(await carrier.link.command(command, requestId))
      expect([door.commands, answers]).toEqual([
        asked.map(({ requestId, command }) => ({ requestId, command: commandSchema.parse(command) })),
        asked.map(({ command }) => ({ outcome: 'done', message: `Did ${command.name}.` })),
      ])
    })

    test('every outcome comes back whole', async () => {
      const left = [...results]
      door.onCommand = () => Promise.resolve(left.shift() ?? { outcome: 'failed', message: 'No more.' })
      const answers = []
      for (const _ of results) answers.push(await carrier.link.command({ name: 'resync' }))
      expect(answers).toEqual(results)
    })

    test('a command without a request id gets one of its own, and one that has it keeps it when it is sent again', async () => {
      const requestId = randomUUID()
      await carrier.link.command({ name: 'resync' })
      await carrier.link.command({ name: 'resync' })
      await carrier.link.command({ name: 'resync' }, requestId)
      await carrier.link.command({ name: 'resync' }, requestId)
      const ids = door.commands.map((request) => request.requestId)
      expect([new Set(ids).size, ids.slice(2)]).toEqual([3, [requestId, requestId]])
    })

    test('every question reaches the agent as it was meant, and its answer comes back whole', async () => {
      const all = Object.values(questions)
      const left = all.map(({ answer }) => answer)
      door.onQuery = () => Promise.resolve(left.shift() ?? questions.history.answer)
      const answers = []
      for (const { ask } of all) answers.push(await carrier.link.query(ask))
      expect([door.queries, answers]).toEqual([all.map(({ asked }) => asked), all.map(({ answer }) => answer)])
    })

    test('a question without an answer fails with the words of the agent', async () => {
      await expect(carrier.link.query({ name: 'contexts' })).rejects.toEqual(
        new LinkError('refused', 'Nobody knows about contexts.'),
      )
    })

    test('a question that is withdrawn ends at the agent, and the others go on', async () => {
      const answered = Promise.withResolvers<Answer>()
      door.onQuery = () => answered.promise
      const leaving = new AbortController()
      const refused = carrier.link.query(questions.fit.ask, leaving.signal).catch((error: unknown) => error)
      const kept = carrier.link.query(questions.settings.ask, new AbortController().signal)
      await eventually(() => door.signals.length === 2)
      leaving.abort()
      await eventually(() => door.signals[door.queries.findIndex(({ name }) => name === 'fit')]?.aborted === true)
      const ended = door.signals.filter((signal) => signal?.aborted).length
      answered.resolve(questions.settings.answer)
      expect([await kept, ended, carrier.errors]).toEqual([questions.settings.answer, 1, []])
      expect(await refused).toBeInstanceOf(LinkError)
    })

    test('a question whose asker has left before it is asked reaches nobody', async () => {
      await expect(carrier.link.query(questions.fit.ask, AbortSignal.abort())).rejects.toBeInstanceOf(LinkError)
      await carrier.link.snapshot()
      expect(door.queries).toEqual([])
    })

    test('a defect of the agent is said as one, and is no end', async () => {
      const defect = new Error('secret detail')
      door.onQuery = () => Promise.reject(defect)
      door.onCommand = () => Promise.reject(defect)
      const failure = new LinkError('refused', 'The agent failed to answer; its log says why.')
      await expect(carrier.link.query({ name: 'contexts' })).rejects.toEqual(failure)
      await expect(carrier.link.command({ name: 'resync' })).rejects.toEqual(failure)
      expect([(await carrier.link.snapshot()).bootId, carrier.errors]).toEqual(['boot-1', [defect, defect]])
    })

    test('what the contract does not know reaches nobody', async () => {
      const sent = carrier.link.command({ name: 'selectContext', context: '' })
      await expect(sent).rejects.toMatchObject({ name: 'LinkError', code: 'misunderstood' })
      const asked = carrier.link.query({ name: 'history', limit: 1_000_000 })
      await expect(asked).rejects.toMatchObject({ name: 'LinkError', code: 'misunderstood' })
      expect([door.commands, door.queries]).toEqual([[], []])
    })

    test('a follower is told the state at once and after each change, until it leaves', async () => {
      const heard = new Heard<AgentSnapshot>()
      const leave = carrier.link.follow(heard)
      for (const revision of [1, 2, 3]) {
        door.show({ revision })
        await eventually(() => heard.items.at(-1)?.revision === revision)
      }
      leave()
      await eventually(() => door.followers === 0, { what: 'the unsubscription' })
      const [first] = heard.items
      expect([heard.items.map(({ revision }) => revision), { ...first, now: '' }, heard.ends]).toEqual([
        [1, 2, 3],
        { ...sampleSnapshot(), now: '' },
        [],
      ])
    })

    test('who follows sees as much as it says, and without a word as much as a window', async () => {
      for (const looker of [undefined, ...lookers]) carrier.link.follow(new Heard<AgentSnapshot>(), looker)
      await eventually(() => door.lookers.length === 1 + lookers.length)
      expect(door.lookers.map((looker = 'window') => looker).sort()).toEqual(['icon', 'menu', 'window', 'window'])
    })

    test('changes in a row are one', async () => {
      const heard = new Heard<AgentSnapshot>()
      carrier.link.follow(heard)
      await eventually(() => heard.items.length === 1)
      for (let revision = 2; revision <= 500; revision++) door.show({ revision })
      await eventually(() => heard.items.at(-1)?.revision === 500)
      expect(heard.items.map(({ revision }) => revision)).toEqual([1, 500])
    })

    test('a log is followed from where it was asked for, until it is left', async () => {
      const heard = new Heard<LogChunk>()
      const leave = carrier.link.stream({ name: 'log', service, from: chunk.end }, heard)
      await eventually(() => door.readers.size === 1)
      const { gap: _, ...plain } = chunk
      door.print(chunk)
      door.print(plain)
      await eventually(() => heard.items.length === 2)
      leave()
      await eventually(() => door.readers.size === 0, { what: 'the end of the reading' })
      expect([door.streams, heard.items, heard.ends]).toEqual([
        [{ name: 'log', service, from: chunk.end }],
        [chunk, plain],
        [],
      ])
    })

    test('what a model answers comes as it is, until it is left', async () => {
      const heard = new Heard<AnswerPiece>()
      const leave = carrier.link.stream({ name: 'ask', service, question: ' why? ' }, heard)
      await eventually(() => door.readers.size === 1)
      const pieces = [{ text: 'So.\n\n' }, { text: '', end: { tokens: 2, tokensPerSecond: 8.5, isCut: true } }]
      for (const piece of pieces) door.print(piece)
      await eventually(() => heard.items.length === 2)
      leave()
      await eventually(() => door.readers.size === 0)
      expect([door.streams, heard.items, heard.ends]).toEqual([
        [{ name: 'ask', service, question: 'why?' }],
        pieces,
        [],
      ])
    })

    test('a log that ends says why, after its last lines', async () => {
      const heard = new Heard<LogChunk>()
      carrier.link.stream({ name: 'log', service }, heard)
      const [reader] = await eventually(() => door.readers.size === 1 && [...door.readers])
      reader?.next(chunk)
      reader?.end(new LinkError('refused', 'The service is gone.'))
      await eventually(() => heard.ends.length === 1)
      expect([heard.items, heard.ends]).toEqual([[chunk], [new LinkError('refused', 'The service is gone.')]])
    })

    test('a log that cannot be followed is refused by name', async () => {
      door.stream = (_, { end }) => {
        end(new LinkError('refused', 'There is no service default/qwen.'))
        return () => undefined
      }
      const heard = new Heard<LogChunk>()
      carrier.link.stream({ name: 'log', service }, heard)
      await eventually(() => heard.ends.length === 1)
      expect(heard.ends).toEqual([new LinkError('refused', 'There is no service default/qwen.')])
    })

    test('when the agent ends, whoever listens or waits is told, and nobody is left with it', async () => {
      const followed = new Heard<AgentSnapshot>()
      const read = new Heard<LogChunk>()
      carrier.link.follow(followed)
      carrier.link.stream({ name: 'log', service }, read)
      await eventually(() => followed.items.length === 1 && door.readers.size === 1)
      await carrier.end()
      await eventually(() => followed.ends.length === 1 && read.ends.length === 1)
      await expect(carrier.link.snapshot()).rejects.toMatchObject({ name: 'LinkError', code: 'gone' })
      const codes = [...followed.ends, ...read.ends].map(({ code }) => code)
      expect([codes, door.followers, door.readers.size]).toEqual([['gone', 'gone'], 0, 0])
    })
  })
}
