import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { readLaunchdPlist } from '../../src/installation/service/launchd.ts'
import { serviceLabel } from '../../src/installation/service/service-plan.ts'
import { useKubeSim } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import { exists } from '../support/exists.ts'
import { GoAgentWorld } from '../support/go-agent/go-agent-world.ts'
import { agentEntry, migrateVerb } from '../support/go-agent/migrate-scene.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'

const api = useKubeSim()

const plain = (text: string, scene: GoAgentWorld, key: string): string[] =>
  text
    .trimEnd()
    .replaceAll(scene.cluster.folder, 'FOLDER')
    .replaceAll(key, 'KEY')
    .replace(/process \d+/g, 'process PID')
    .replace(/\b\d+\.\d s\b/g, 'N s')
    .replace(/Service \S+ leads to 192\.0\.2\.10:\d+/, 'Service IP leads to ADDRESS')
    .replace(/\(metal-agent [^)]+\)/g, '(metal-agent VERSION)')
    .replace(`when ${scene.host.user.name} logs in`, 'when USER logs in')
    .split('\n')

/** What comes after the plan, without what a service says while it starts, of which some may be over before it is seen. */
const steps = (lines: readonly string[]): string[] =>
  lines
    .slice(lines.findIndex((line) => line.startsWith('[1/5]')))
    .filter((line) => !/^KEY: [A-Z]/.test(line) || / leads to /.test(line))

const moved = [
  '[1/5] Models: making them known here.',
  '[2/5] Starting this agent beside the Go agent, which keeps serving.',
  'FOLDER/home/Library/LaunchAgents/dev.metalbar.llmkube-metal-agent.plist is written: the service starts when USER logs in at the screen.',
  'It runs as process PID (metal-agent VERSION).',
  '[3/5] Pausing the Go agent, and moving 1 service.',
  'KEY: its requests finish, then its server ends.',
  'KEY: serves here, after N s without an answer.',
  '[4/5] Ending the Go agent.',
  'Restarting this agent so that it gets the port of /healthz and /metrics; the servers keep running.',
  'It runs as process PID (metal-agent VERSION). The model server that ran kept running without a restart.',
  '[5/5] Checking that everything is there.',
  'KEY: Service IP leads to ADDRESS, which answers a completion (asked over loopback, because this machine does not reach itself at that address).',
  'KEY: moved, N s without an answer',
  'This agent serves now. "metal-agent migrate --undo" goes back to the Go agent, --confirm removes what is kept for that.',
]

const logLine = z.looseObject({ msg: z.string(), pid: z.number().optional() })

/** Pids of the servers that our agents wrote this of, oldest first. */
async function ownServers(log: string, msg: string): Promise<(number | undefined)[]> {
  const lines = (await readFile(log, 'utf8')).trimEnd().split('\n')
  return lines.flatMap((line) => {
    const read = logLine.parse(JSON.parse(line))
    return read.msg === msg ? [read.pid] : []
  })
}

test('metal-agent migrate installs the service, which serves after one start of the model; --undo removes it, and --confirm is final', async () => {
  await using scene = await GoAgentWorld.open(api().connection)
  await scene.apply('one')
  await scene.startGoAgent({}, ['one'])
  const key = `${scene.cluster.namespace}/one`
  const goPlist = await readFile(scene.plistFile, 'utf8')
  const library = path.join(scene.home, 'Library')
  const plist = path.join(library, 'LaunchAgents', `${serviceLabel}.plist`)
  const log = path.join(library, 'Logs/Metalbar/metal-agent.log')
  const stateDir = path.join(library, 'Application Support/Metalbar')
  const [goServer = 0] = await scene.goStarts('one')

  const there = await migrateVerb(scene, 'migrate')
  expect(there.complained.replaceAll(/^metal-agent: --\S+ .* is in a folder that the system empties: .*\n/gm, '')).toBe(
    '',
  )
  expect([there.code, steps(plain(there.said, scene, key))]).toEqual([0, moved])
  const { words, environment } = readLaunchdPlist(await readFile(plist, 'utf8'))
  expect([words.slice(0, 2), environment]).toMatchObject([
    [process.execPath, agentEntry],
    { HOME: scene.home, METAL_AGENT_SERVICE: '1' },
  ])
  expect(words.slice(2)).toEqual([
    `--state-dir=${stateDir}`,
    `--model-store=${stateDir}/models`,
    `--log-file=${log}`,
    ...[`--namespace=${scene.cluster.namespace}`, `--llama-server=${sampleServerPath}`],
    ...[`--port=${scene.healthPort}`, '--client-port=0', '--host-ip=192.0.2.10', `--kubeconfig=${scene.kubeconfig}`],
    '--publish=direct',
  ])
  // The second agent, which has the port of /healthz, goes on with the server of the first.
  const started = await ownServers(log, 'started inference service')
  expect([await scene.goStarts('one'), started.length, await ownServers(log, 'adopted server')]).toEqual([
    [goServer],
    1,
    started,
  ])
  const platform = hostPlatform()
  expect(await platform.process(goServer)).toBeUndefined()
  expect(await platform.process((await scene.jobPid(serviceLabel)) ?? 0)).toBeDefined()
  expect((await fetch(`http://127.0.0.1:${scene.healthPort}/readyz`)).status).toBe(200)
  const ownPort = await scene.untilPublished('one')
  expect([await exists(scene.plistFile), (await fetch(`http://127.0.0.1:${ownPort}/health`)).status]).toEqual([
    false,
    200,
  ])

  const back = await migrateVerb(scene, 'undo')
  expect([back.code, back.complained, plain(back.said, scene, key)]).toEqual([
    0,
    '',
    [
      'Ending this agent, which gives its services back.',
      'The service was removed, and with it:',
      '  FOLDER/home/Library/LaunchAgents/dev.metalbar.llmkube-metal-agent.plist',
      '  FOLDER/home/Library/Logs/Metalbar/metal-agent.err.log',
      '  FOLDER/home/Library/Logs/Metalbar/metal-agent.log',
      'Restoring models and plist.',
      'The Go agent runs again (process PID) and loads its models.',
    ],
  ])
  await eventually(async () => {
    const published = await scene.cluster.published('one')
    return published?.ready === true && published.port !== ownPort
  })
  expect([(await scene.goStarts('one')).length, await exists(plist), await scene.jobPid(serviceLabel)]).toEqual([
    2,
    false,
    undefined,
  ])
  expect(await readFile(scene.plistFile, 'utf8')).toBe(goPlist)

  const again = await migrateVerb(scene, 'migrate')
  expect([again.code, steps(plain(again.said, scene, key))]).toEqual([0, moved])
  const confirmed = await migrateVerb(scene, 'confirm')
  expect([confirmed.code, confirmed.complained, plain(confirmed.said, scene, key)]).toEqual([
    0,
    '',
    [
      '1 file in FOLDER/llmkube-models is gone; its model is in FOLDER/home/Library/Application Support/Metalbar/models.',
      'The migration is final. What is left of the Go agent: sudo rm FOLDER/bin/llmkube-metal-agent',
    ],
  ])
  const files = [plist, `${stateDir}/models/one/tiny.gguf`, scene.plistFile, path.join(scene.store, 'one/tiny.gguf')]
  expect(await Promise.all(files.map(exists))).toEqual([true, true, false, false])
  const kept = path.join(stateDir, 'migration', path.basename(scene.plistFile))
  expect([await exists(kept), (await migrateVerb(scene, 'confirm')).complained]).toEqual([
    false,
    'metal-agent: There is no finished migration to confirm.\n',
  ])
  expect(await scene.cluster.published('one')).toMatchObject({ ready: true })
})
