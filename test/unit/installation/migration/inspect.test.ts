import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { build } from 'plist'
import { expect, test } from 'vitest'
import type { ProcessFacts } from '../../../../src/agent-core/platform/platform.ts'
import { inspect, type InspectOptions, type MigrationWorld } from '../../../../src/installation/migration/inspect.ts'
import { confirm } from '../../../../src/installation/migration/migrate.ts'
import { MigrationRecord, standingOf, type Migration } from '../../../../src/installation/migration/record.ts'
import { sampleSnapshot } from '../../../support/sample-snapshot.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { goIdentity } from '../../gateway/go-identity.ts'

const program = '/usr/local/bin/llmkube-metal-agent'
const agent = (pid: number, suspended = false): ProcessFacts => ({
  ...{ pid, groupId: pid, parentPid: 1, startTime: '1', suspended },
  commandLine: `${program} --namespace default`,
})

const options: InspectOptions = { plist: undefined, ownFlags: [], stopsOthers: false, begun: undefined }

/** A Mac with the Go agent's plist, whose launchd started process 11, and no cluster that answers. */
async function mac({ version = 'v0.9.19', flags = ['--kubeconfig', '/nowhere'] } = {}) {
  const folder = await temporaryFolder()
  const at = (...names: string[]) => path.join(folder.dir, ...names)
  const script = async (name: string, text: string): Promise<string> => {
    await mkdir(at('bin'), { recursive: true })
    await writeFile(at('bin', name), `#!/bin/sh\n${text}\n`)
    await chmod(at('bin', name), 0o755)
    return at('bin', name)
  }
  await script('launchctl', "printf 'x = {\\n\\tpid = 11\\n}\\n'")
  const goAgent = await script('llmkube-metal-agent', `echo 'llmkube-metal-agent ${version}'`)
  await mkdir(at('Library/LaunchAgents'), { recursive: true })
  const plist = at('Library/LaunchAgents/com.llmkube.metal-agent.plist')
  await writeFile(plist, build({ Label: 'com.llmkube.metal-agent', ProgramArguments: [goAgent, ...flags] }))
  const told: string[] = []
  const never = () => Promise.reject(new Error('nothing may be changed'))
  const world = (processes: readonly ProcessFacts[], changes: Partial<MigrationWorld> = {}): MigrationWorld => ({
    host: {
      ...{ platform: 'darwin', env: { HOME: folder.dir }, isRoot: false, systemRoot: at('root') },
      user: { name: 'me', id: 501, groupId: 20, homeDir: folder.dir },
      programFolders: [at('bin'), '/usr/bin', '/bin'],
    },
    platform: {
      processes: () => Promise.resolve([...processes]),
      isRunning: () => Promise.resolve(true),
      memory: () => Promise.resolve({ totalBytes: 64 * 2 ** 30, availableBytes: 2 ** 30 }),
      interfaces: () => [],
    },
    service: { install: never, uninstall: never, restart: never },
    ...{ stateDir: at('state'), ownStore: at('own'), ownLog: at('log') },
    ownAgent: () => Promise.resolve(undefined),
    checkFlags: () => undefined,
    tell: (sentence) => void told.push(sentence),
    signal: new AbortController().signal,
    ...changes,
  })
  return { at, plist, told, world, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

const withoutCluster = (problems: readonly string[]) =>
  problems.filter((one) => !one.startsWith('The cluster does not answer'))

test('of several Go agents the one that launchd started is moved, and the others are in the way unless they are to be ended', async () => {
  await using here = await mac()
  const world = here.world([agent(10), agent(11), agent(12)])
  const inspection = await inspect(world, options)
  expect([inspection.agent?.pid, inspection.others.map(({ pid }) => pid)]).toEqual([11, [10, 12]])
  expect(inspection.api).toBeUndefined()
  expect(withoutCluster(inspection.problems)).toEqual([
    expect.stringMatching(/^3 Go agents run; process 11 would be moved\. .* with "kill 10 12", or .*--stop-others\.$/),
  ])
  expect(withoutCluster((await inspect(world, { ...options, stopsOthers: true })).problems)).toEqual([])
  const alone = await inspect(here.world([agent(10)]), options)
  expect([alone.agent?.pid, alone.others, withoutCluster(alone.problems)]).toEqual([10, [], []])
})

test('our own agent, which may have the same name, is no Go agent', async () => {
  await using here = await mac()
  await mkdir(here.at('state'))
  await writeFile(here.at('state/agent.lock'), JSON.stringify({ pid: 12 }))
  const { agent: found, others, kept } = await inspect(here.world([agent(12), agent(10)]), options)
  expect([found?.pid, others]).toEqual([10, []])
  expect(kept[0]).toMatch(
    /^LLMKube's Go agent v0\.9\.19 \(com\.llmkube\.metal-agent, .*\): process 10 with 0 servers\.$/,
  )
})

test('an agent of ours that runs already is in the way of a move that is begun, and not of one that continues', async () => {
  await using here = await mac()
  const world = here.world([agent(11)], { ownAgent: () => Promise.resolve(sampleSnapshot()) })
  expect(withoutCluster((await inspect(world, options)).problems)).toEqual([
    expect.stringContaining(`An agent of Metalbar already runs on ${here.at('state')}`),
  ])
  const begun = begunOn(here.plist)
  expect(withoutCluster((await inspect(world, { ...options, begun })).problems)).toEqual([])
})

const identityAt = 'Library/Application Support/llmkube/metal-agent/ingress'

test.for([
  ['no folder', {}, 'are not in FOLDER: restore that folder'],
  ['no key', { 'ingress-cert.pem': goIdentity.certificate }, 'in FOLDER, cannot be used: ingress-key.pem is missing.'],
  ['no certificate', { 'ingress-key.pem': goIdentity.key }, 'in FOLDER, cannot be used: ingress-cert.pem is missing.'],
  [
    'half a certificate',
    { 'ingress-key.pem': goIdentity.key, 'ingress-cert.pem': goIdentity.certificate.slice(0, 200) },
    'in FOLDER, cannot be used: ingress-cert.pem holds no certificate in PEM.',
  ],
] as const)(
  'a Go agent in relay mode whose identity has %s is not moved, and keeps what there is',
  async ([, files, why]) => {
    await using here = await mac({ version: 'v0.10.0' })
    const folder = here.at(identityAt)
    if (Object.keys(files).length > 0) await mkdir(folder, { recursive: true })
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text, { mode: 0o600 })
    const { problems } = await inspect(here.world([agent(11)]), options)
    expect(withoutCluster(problems)).toEqual([expect.stringContaining(why.replace('FOLDER', folder))])
    const left = await Promise.all(Object.keys(files).map((name) => readFile(path.join(folder, name), 'utf8')))
    expect(left).toEqual(Object.values(files))
  },
)

test('a key that other users may read is not taken over until it is closed to them', async () => {
  await using here = await mac({ version: 'v1.2.0', flags: ['--kubeconfig', '/nowhere', '--state-dir', '~/llmkube'] })
  const folder = here.at('llmkube/ingress')
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, 'ingress-cert.pem'), goIdentity.certificate)
  await writeFile(path.join(folder, 'ingress-key.pem'), goIdentity.key, { mode: 0o640 })
  const inspected = async () => inspect(here.world([agent(11)]), options)
  expect(withoutCluster((await inspected()).problems)).toEqual([
    expect.stringContaining('other users have access to ingress-key.pem. Restore its two files, readable by'),
  ])
  await chmod(path.join(folder, 'ingress-key.pem'), 0o600)
  const mended = await inspected()
  expect([withoutCluster(mended.problems), mended.flags, mended.identity?.pin]).toEqual([
    [],
    expect.arrayContaining(['--publish=relay']),
    goIdentity.pin,
  ])
})

test('a Go agent 0.10 that publishes directly stays so, and has its models where 0.10 keeps them', async () => {
  await using here = await mac({
    version: 'v0.10.0',
    flags: ['--kubeconfig', '/nowhere', '--legacy-direct-endpoints', '--ingress-port', '9444'],
  })
  const { problems, flags, identity, store } = await inspect(here.world([agent(11)]), options)
  expect([withoutCluster(problems), identity]).toEqual([[], undefined])
  expect(flags).toEqual(expect.arrayContaining(['--legacy-direct-endpoints=true', '--ingress-port=9444']))
  expect(flags).not.toContain('--publish=relay')
  expect(store.from).toBe(here.at('Library/Application Support/llmkube/models'))
})

test.for([
  [[], 'own'],
  [['--model-store=chosen'], 'chosen'],
  [['--model-store', 'chosen'], 'chosen'],
  [['--model-store=first', '-model-store', 'chosen'], 'chosen'],
  [['--model-store', 'first', '--model-store=a=b'], 'a=b'],
] as const)('with the flags %j models move to %s', async ([given, to]) => {
  await using here = await mac({ flags: ['--kubeconfig', '/nowhere', '--model-store', '/no/such/store'] })
  const ownFlags = given.map((word) => word.replace(/(^|=)(first|chosen|a=b)$/, `$1${here.at('$2')}`))
  const { store } = await inspect(here.world([agent(11)]), { ...options, ownFlags })
  expect([store.from, store.to]).toEqual(['/no/such/store', here.at(to)])
})

const begunOn = (file: string): Migration => ({
  ...{ startedAt: '2026-11-23T13:00:00.000Z', phase: 'begun', isInstalled: false, transferred: [] },
  job: { file, kept: `${file}.kept`, program },
  store: { from: '/a', to: '/b', moved: [] },
})

test('a move that was left in the middle says what is installed, what is served and whether the Go agent is paused', async () => {
  await using here = await mac()
  const stateDir = here.at('state')
  const { platform } = here.world([agent(10), agent(11, true)])
  expect(await standingOf(stateDir, platform)).toBeUndefined()
  const record = await MigrationRecord.open(stateDir)
  await record.begin(begunOn(here.plist))
  const paused = 'The Go agent (process 11) is paused: it manages nothing,'
  expect(await standingOf(stateDir, platform)).toContain(
    `is not finished. This agent is not installed, and serves nothing yet. ${paused}`,
  )
  await record.note({ isInstalled: true, transferred: ['default/a', 'default/b'] })
  const gone = { processes: () => Promise.resolve([]) }
  expect(await standingOf(stateDir, gone)).toMatch(
    /This agent is installed, and serves default\/a, default\/b\. The Go agent does not run\. "metal-agent migrate" continues, "metal-agent migrate --undo" goes back\.$/,
  )
  await record.note({ phase: 'undoing' })
  expect(await standingOf(stateDir, here.world([agent(10)]).platform)).toMatch(
    /is being undone, .*This agent is installed\. The Go agent \(process 10\) runs\. "metal-agent migrate --undo" continues that\.$/,
  )
  for (const phase of ['done', 'undone'] as const) {
    await record.note({ phase })
    expect(await standingOf(stateDir, platform)).toBeUndefined()
  }
})

test.for([
  [['m/one.gguf'], '1 file in GO is gone; its model is in OWN.'],
  [['m/one.gguf', 'm/two.gguf'], '2 files in GO are gone; their models are in OWN.'],
  [[], undefined],
] as const)('a move of %j that is confirmed is final', async ([files, said]) => {
  await using here = await mac()
  const [from, to] = [here.at('go'), here.at('own')]
  for (const folder of [from, to]) {
    await mkdir(path.join(folder, 'm'), { recursive: true })
    for (const file of files) await writeFile(path.join(folder, file), 'GGUF')
  }
  const record = await MigrationRecord.open(here.at('state'))
  const store = { from, to, moved: files.map((file) => ({ path: file })) }
  await record.begin({ ...begunOn(here.plist), store })
  await expect(confirm(here.world([]), record)).rejects.toThrow('There is no finished migration to confirm.')
  await record.note({ phase: 'done' })
  await confirm(here.world([]), record)
  const final = `The migration is final. What is left of the Go agent: sudo rm ${program}`
  const told = here.told.map((sentence) => sentence.replace(from, 'GO').replace(to, 'OWN'))
  expect([told, record.value]).toEqual([[...(said === undefined ? [] : [said]), final], undefined])
})
