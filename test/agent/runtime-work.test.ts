import { randomUUID } from 'node:crypto'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test, vi, onTestFinished } from 'vitest'
import { answers } from '../../src/contract/queries.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

/** What a window asks an agent for. */
const asking = ({ agent }: RunningAgent) => ({
  ollama: async () => {
    const { runtimes } = answers.runtimes.parse(await agent.query({ name: 'runtimes' }))
    return runtimes.find(({ name }) => name === 'ollama')
  },
  plan: async () =>
    answers.runtimePlan.parse(await agent.query({ name: 'runtimePlan', runtime: 'ollama', deed: 'install' })),
  change: (plan: string) => agent.command({ requestId: randomUUID(), command: { name: 'changeRuntime', plan } }),
  work: () => agent.snapshot().runtimeWork,
})

test('an agent shows what an installation takes, does it, and tells how it goes; one that ends meanwhile ends it', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const bin = path.join(world.folder, 'brew', 'bin')
  await mkdir(bin, { recursive: true })
  const brew = (install: string) =>
    writeFile(path.join(bin, 'brew'), `#!/bin/sh\necho "pid $$"\n${install}\n`, { mode: 0o755 })
  vi.stubEnv('PATH', `${bin}${path.delimiter}/usr/bin${path.delimiter}/bin`)
  onTestFinished(() => void vi.unstubAllEnvs())

  await brew('exec tail -f /dev/null')
  const first = await world.startAgent()
  const asked = asking(first)
  expect((await asked.ollama())?.deeds).toEqual(['install'])
  const plan = await asked.plan()
  expect([plan.commands, asked.work()]).toEqual([[`${bin}/brew install ollama`], undefined])
  expect(await asked.change(randomUUID())).toMatchObject({ outcome: 'refused' })
  expect(await asked.change(plan.id)).toMatchObject({ outcome: 'accepted' })
  const pid = await eventually(
    () =>
      Number(
        asked
          .work()
          ?.lines.find((line) => line.startsWith('pid '))
          ?.slice(4),
      ) || undefined,
  )
  await first.agent.stop()
  await untilGone(pid)
  expect(await readdir(bin)).toEqual(['brew'])

  await brew(`printf '#!/bin/sh\\necho ollama version is 0.12.3\\n' > '${bin}/ollama'; chmod +x '${bin}/ollama'`)
  const next = asking(await world.startAgent())
  expect(await next.change(plan.id)).toMatchObject({ outcome: 'refused' })
  expect(await next.change((await next.plan()).id)).toMatchObject({ outcome: 'accepted' })
  const done = await eventually(() => next.work()?.state === 'done' && next.work())
  expect(done.message).toMatch(/^ollama 0\.12\.3 is installed\./)
  // A Homebrew that keeps it elsewhere did not install it.
  expect((await next.ollama())?.deeds).toEqual([])
})
