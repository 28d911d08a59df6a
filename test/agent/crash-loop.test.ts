import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { WorkQueue } from '../../src/agent-core/reconcile/work-queue.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { patienceMs } from '../support/running-agent.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'

const crashAtStart = { message: 'loading\nerror: no such tensor\nexiting' }
const sentence = 'sample-server.cjs exited with code 1 while starting: error: no such tensor.'

/** The first attempt follows at once, the next one long after any test. */
function patientAfterTwo(): () => number {
  let failures = 0
  return () => (++failures === 1 ? 0 : 1_000)
}

describe('a crash loop', () => {
  const api = useRealApiServer()

  test('shows how often, why, and when the agent tries again: in the snapshot, the condition and one Event', async () => {
    await using world = await AgentWorld.open(api().connection)
    const agent = await world.startAgent()
    await world.apply('tiny', { script: { crashAtStart } })
    const view = await agent.until('tiny', ({ message }) => message.startsWith('Failed 3 times in a row'))
    expect(view).toMatchObject({
      state: 'crash-looping',
      reason: 'CrashLooping',
      message: `Failed 3 times in a row, next attempt at ${view.retryAt?.slice(11, 19)}Z: ${sentence}`,
      crash: { exitCode: 1, message: sentence, firstError: 'error: no such tensor' },
    })
    const story = /^Failed (\d+) times in a row, next attempt at \d\d:\d\d:\d\dZ: (.*)$/
    const told = await eventually(
      async () => {
        const condition = story.exec((await world.conditionMessage('tiny')) ?? '')
        const events = (await world.events('tiny')).filter(({ reason }) => reason === 'CrashLooping')
        const [event] = events.map(({ message, count }) => ({ count, story: story.exec(message) }))
        return Number(condition?.[1]) >= 3 && (event?.count ?? 0) >= 3 && { condition, event, events: events.length }
      },
      { timeoutMs: patienceMs, what: 'three failures on the object' },
    )
    expect({
      events: told.events,
      condition: told.condition?.[2],
      event: told.event?.story?.[2],
      sameCount: Number(told.event?.story?.[1]) === told.event?.count,
      firstFailures: (await world.eventReasons('tiny')).filter((reason) => reason === 'StartFailed').length,
    }).toEqual({ events: 1, condition: sentence, event: sentence, sameCount: true, firstFailures: 1 })
  })

  test('ends at once with a changed specification', async () => {
    await using world = await AgentWorld.open(api().connection)
    const agent = await world.startAgent({ random: patientAfterTwo() })
    await world.apply('tiny', { script: { crashAtStart } })
    await agent.until('tiny', 'crash-looping')
    await world.patchSpec('tiny', { extraArgs: [] })
    await agent.untilReady('tiny')
    await eventually(async () => (await world.condition('tiny')) === 'True Serving')
  })

  test('ends with a new binary in place of the one that fails', async () => {
    await using world = await AgentWorld.open(api().connection)
    const llamaServer = join(world.folder, 'llama-server')
    await writeFile(llamaServer, '#!/bin/sh\necho "error: a bad build"\nexit 1\n', { mode: 0o755 })
    const agent = await world.startAgent({ llamaServer, random: patientAfterTwo() })
    await world.apply('tiny')
    await agent.until('tiny', 'crash-looping')
    await writeFile(`${llamaServer}.new`, `#!/bin/sh\nexec ${sampleServerPath} "$@"\n`)
    await chmod(`${llamaServer}.new`, 0o755)
    await rename(`${llamaServer}.new`, llamaServer)
    await agent.untilReady('tiny')
  })

  test('starts over when another server leaves the memory', async () => {
    await using world = await AgentWorld.open(api().connection)
    const agent = await world.startAgent({ random: patientAfterTwo() })
    await world.apply('large')
    await agent.untilReady('large')
    await world.apply('tiny', { script: { crashAtStart } })
    await agent.until('tiny', 'crash-looping')
    await world.patchSpec('large', { replicas: 0 })
    const { message } = await agent.until('tiny', ({ reason }) => reason === 'StartFailed')
    expect(message).toBe(sentence)
  })

  test('is over when the server serves again, and what happened is not forgotten', async () => {
    await using world = await AgentWorld.open(api().connection)
    const [llamaServer, broken] = [join(world.folder, 'llama-server'), join(world.folder, 'broken')]
    const script = `#!/bin/sh\n[ -e ${broken} ] && echo "error: no memory left" && exit 1\nexec ${sampleServerPath} "$@"\n`
    await writeFile(broken, '')
    await writeFile(llamaServer, script, { mode: 0o755 })
    const agent = await world.startAgent({ llamaServer, random: () => 0.1 })
    await world.apply('tiny')
    await agent.until('tiny', 'crash-looping')
    await rm(broken)
    await agent.untilReady('tiny')
    // Until the cluster says the same, a look at it is due.
    const { message, crash } = await agent.until(
      'tiny',
      ({ state, retryAt }) => state === 'ready' && retryAt === undefined,
    )
    expect({ message, firstError: crash?.firstError }).toEqual({
      message: expect.stringMatching(/^Serving at /) as string,
      firstError: 'error: no memory left',
    })
    await eventually(async () => (await world.condition('tiny')) === 'True Serving')
  })
})

describe('a person asks for a restart', () => {
  const api = useRealApiServer()

  test('of a server that serves: it is withdrawn, and one new process takes its place, however often it is asked', async () => {
    await using world = await AgentWorld.open(api().connection)
    const agent = await world.startAgent()
    await world.apply('tiny', { script: { loadMs: 500 } })
    const { pid } = await agent.untilReady('tiny')
    const known = [1, 2].map(() => agent.agent.restart(world.namespace, 'tiny'))
    await world.untilNotReady('tiny')
    await agent.until('tiny', (view) => view.state === 'starting' && view.pid !== undefined && view.pid !== pid)
    known.push(agent.agent.restart(world.namespace, 'tiny'), agent.agent.restart(world.namespace, 'other'))
    const again = await agent.untilReadyAgain('tiny', pid)
    await untilGone(pid)
    const stopped = await eventually(async () => {
      const told = (await world.events('tiny')).filter(({ reason }) => reason === 'Stopped')
      return told.length > 0 && told.map(({ message }) => message)
    })
    expect({ known, starts: agent.starts, stopped, now: (await agent.untilReady('tiny')).pid }).toEqual({
      known: [true, true, true, false],
      starts: 2,
      stopped: ['The server is restarted on request, and its address pauses until the new one answers.'],
      now: again.pid,
    })
  })
})

test('a download after a failed start is waited for without looking all the time', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  using looks = vi.spyOn(WorkQueue.prototype, 'add')
  const looksAt = (name: string) => looks.mock.calls.filter(([key]) => key === `${world.namespace}/${name}`).length
  await using silent = createServer(() => undefined).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const agent = await world.startAgent({ random: patientAfterTwo() })
  await world.apply('tiny', { script: { crashAtStart } })
  await agent.until('tiny', 'crash-looping')
  const { port } = silent.address() as AddressInfo
  await world.patchModel('tiny', { source: `http://127.0.0.1:${port}/silent.gguf` })
  await agent.until('tiny', 'fetching')
  const before = looksAt('tiny')
  await world.applyService('marker')
  await agent.until('marker', ({ reason }) => reason === 'ModelMissing')
  silent.closeAllConnections()
  expect(looksAt('tiny') - before).toBeLessThan(50)
})

test('the address of a server that ends is withdrawn at once, also while a new build is asked what it knows', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const [llamaServer, gate, asked] = ['llama-server', 'gate', 'asked'].map((name) => join(world.folder, name))
  if (!llamaServer || !gate || !asked) throw new Error('No files.')
  const help = `[ "$1" = --help ] && [ -e ${gate} ] && echo $$ > ${asked} && while [ -e ${gate} ]; do sleep 0.1; done`
  const build = (name: string) => `#!/bin/sh\n# ${name}\n${help}\nexec ${sampleServerPath} "$@"\n`
  await writeFile(llamaServer, build('first'), { mode: 0o755 })
  const agent = await world.startAgent({ llamaServer })
  await world.apply('tiny')
  const { pid } = await agent.untilReady('tiny')
  await writeFile(gate, '')
  await writeFile(`${llamaServer}.new`, build('second'), { mode: 0o755 })
  await rename(`${llamaServer}.new`, llamaServer)
  await world.patchSpec('tiny', { contextSize: 1_024 })
  const asks = await eventually(async () => (existsSync(asked) && Number(await readFile(asked, 'utf8'))) || undefined)
  process.kill(pid, 'SIGKILL')
  await eventually(async () => (await world.published('tiny'))?.ready === false)
  // The build is given ten seconds for its answer, and ended after that.
  expect(() => process.kill(asks, 0)).not.toThrow()
  await rm(gate)
  await agent.untilReadyAgain('tiny', pid)
})
