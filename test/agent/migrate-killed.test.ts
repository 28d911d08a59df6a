import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { status } from '../../src/cli/service/service.ts'
import { serviceLabel } from '../../src/installation/service/service-plan.ts'
import { useKubeSim } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import { exists } from '../support/exists.ts'
import { GoAgentWorld } from '../support/go-agent/go-agent-world.ts'
import { ioOf, migrateProcess, migrateVerb } from '../support/go-agent/migrate-scene.ts'

const api = useKubeSim()

/** What comes last in `metal-agent service status`. */
async function standing(scene: GoAgentWorld): Promise<string> {
  const { io, output } = ioOf(scene)
  await status(io, false, { host: scene.host, platform: scene.platform() })
  return (output.said.trimEnd().split('\n').at(-1) ?? '').replaceAll(`${scene.cluster.namespace}/`, '')
}

const ownPlist = ({ home }: GoAgentWorld): string => path.join(home, 'Library/LaunchAgents', `${serviceLabel}.plist`)
const stateDir = ({ home }: GoAgentWorld): string => path.join(home, 'Library/Application Support/Metalbar')

/** Every Go agent of this world, and whether it is paused. */
async function goAgents(scene: GoAgentWorld) {
  const processes = await scene.platform().processes()
  return processes
    .filter(({ commandLine }) => commandLine.startsWith(`${scene.program} `))
    .map(({ pid, suspended }) => ({ pid, suspended }))
}

test('a move that is killed says in each phase where it stands, goes on from there with one start of each model, and so does an --undo', async () => {
  await using scene = await GoAgentWorld.open(api().connection)
  for (const name of ['one', 'two']) await scene.apply(name)
  await scene.startGoAgent({}, ['one', 'two'])
  const [go] = await goAgents(scene)
  const paused = `The Go agent (process ${go?.pid ?? 0}) is paused: it manages nothing, and counts as gone after three minutes.`
  const runs = `The Go agent (process ${go?.pid ?? 0}) runs.`
  const stands = [
    ['[1/5]', `This agent is not installed, and serves nothing yet. ${runs}`],
    ['[2/5]', `This agent is not installed, and serves nothing yet. ${runs}`],
    ['its requests finish', `This agent is installed, and serves nothing yet. ${paused}`],
    ['[4/5]', `This agent is installed, and serves one, two. ${paused}`],
    ['[5/5]', 'This agent is installed, and serves one, two. The Go agent does not run.'],
  ] as const
  for (const [at, where] of stands) {
    const move = await migrateProcess(scene, 'migrate', { at, signal: 'SIGKILL' })
    const isSaid = JSON.stringify(move, undefined, 2)
    expect([move.signal, await standing(scene)], isSaid).toEqual([
      'SIGKILL',
      expect.stringMatching(/^A move from the Go agent was started on \S+ and is not finished\. /) as unknown,
    ])
    // What serves is as the agent says just then, which on a busy machine may miss a health check.
    const stand = `${where} "metal-agent migrate" continues, "metal-agent migrate --undo" goes back.`
    await eventually(async () => (await standing(scene)).includes(stand), { what: `${stand} after ${isSaid}` })
  }
  expect((await migrateVerb(scene, 'plan')).said).toContain('is not finished')
  const { code, complained, said } = await migrateVerb(scene, 'migrate')
  expect([code, complained], said).toEqual([0, ''])
  const log = await readFile(path.join(scene.home, 'Library/Logs/Metalbar/metal-agent.log'), 'utf8')
  const starts = log.match(/"msg":"started inference service"/g)?.length
  const goStarts = await Promise.all(['one', 'two'].map(async (name) => (await scene.goStarts(name)).length))
  expect([starts, goStarts, await standing(scene)]).toEqual([2, [1, 1], expect.stringMatching(/^Log: /) as unknown])

  const undone = await migrateProcess(scene, 'undo', { at: 'Restoring models and plist', signal: 'SIGKILL' })
  expect([undone.signal, await standing(scene)]).toEqual([
    'SIGKILL',
    expect.stringMatching(
      /is being undone, which is not finished\. This agent is not installed\. The Go agent does not run\. "metal-agent migrate --undo" continues that\.$/,
    ) as unknown,
  ])
  expect([(await migrateVerb(scene, 'migrate')).code, (await migrateVerb(scene, 'confirm')).code]).toEqual([4, 1])
  expect((await migrateVerb(scene, 'undo')).code).toBe(0)
  for (const name of ['one', 'two']) await scene.untilPublished(name)
  const models = [path.join(stateDir(scene), 'models/one/tiny.gguf'), path.join(scene.store, 'one/tiny.gguf')]
  expect([await Promise.all(models.map(exists)), await exists(scene.plistFile)]).toEqual([[false, true], true])
})

test('SIGINT, SIGTERM and SIGHUP take a move back in whatever phase, to its end, whatever signals come then', async () => {
  await using scene = await GoAgentWorld.open(api().connection)
  await scene.apply('one')
  await scene.startGoAgent({}, ['one'])
  const plist = await readFile(scene.plistFile, 'utf8')
  const phases = [
    ['SIGINT', '[1/5]', 1],
    ['SIGTERM', '[2/5]', 1],
    ['SIGHUP', 'its requests finish', 2],
    ['SIGTERM', '[5/5]', 3],
  ] as const
  for (const [signal, at, starts] of phases) {
    const { exitCode, said } = await migrateProcess(
      scene,
      'migrate',
      { at, signal },
      { at: 'Cancelled: everything is being undone.', signal: 'SIGTERM' },
      { at: 'Restoring models and plist.', signal: 'SIGHUP' },
    )
    expect([exitCode, said.split('\n').at(-1)]).toEqual([
      1,
      'The Go agent serves as before; this agent was removed again.',
    ])
    await eventually(async () => (await scene.goStarts('one')).length === starts, { what: 'the start of the model' })
    await scene.untilPublished('one')
    const agents = await goAgents(scene)
    expect([agents.map(({ suspended }) => suspended), await readFile(scene.plistFile, 'utf8')]).toEqual([
      [false],
      plist,
    ])
    const ours = [ownPlist(scene), path.join(stateDir(scene), 'models/one/tiny.gguf')]
    expect([await Promise.all(ours.map(exists)), await scene.jobPid(serviceLabel)]).toEqual([[false, false], undefined])
    expect(await standing(scene)).toBe('No service is installed: metal-agent install installs one.')
  }
})
