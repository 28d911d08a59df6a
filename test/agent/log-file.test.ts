import { existsSync, readFileSync, statSync } from 'node:fs'
import { rename, stat } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { AgentProcess } from '../support/agent-process.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const size = 65_536

test("the agent's log goes to its file, which others may rename, and a second agent with it is refused", async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'logs', 'agent.log')
  await using agent = await AgentProcess.start({ args: [`--log-file=${file}`] })
  await agent.snapshotWhenUp()
  expect(agent.stderr).toBe(`metal-agent: the log goes to ${file}.\n`)
  expect(messages(file)).toContain('starting metal-agent')
  expect((await stat(file)).mode & 0o777).toBe(0o600)

  await using second = await AgentProcess.start({ args: [`--log-file=${file}`] })
  expect(await second.exited).toEqual({ code: 1, signal: null })
  expect(second.stderr).toMatch(
    new RegExp(
      `^metal-agent: Another agent \\(process ${agent.pid}, since .*\\) uses the log .*/agent\\.log: stop it, or give this one another --log-file\\.\\n$`,
    ),
  )

  await rename(file, `${file}.old`)
  await agent.stop()
  expect(messages(file).at(-1)).toBe('stopped metal-agent')
  await using third = await AgentProcess.start({ args: [`--log-file=${file}`] })
  await third.snapshotWhenUp()
  expect(messages(file).filter((msg) => msg === 'starting metal-agent')).toHaveLength(1)
})

test.each([
  [
    'logs/agent.log',
    /^metal-agent: --log-file must be an absolute path of at most 1000 characters, not "logs\/agent\.log"\.\n$/,
  ],
  [
    '/dev/null',
    /^metal-agent: --log-file \/dev\/null cannot be used: it exists and is not a file; name another file, or leave the flag out\.\n$/,
  ],
])('--log-file=%s is refused with what to do', async (file, sentence) => {
  await using agent = await AgentProcess.start({ args: [`--log-file=${file}`] })
  expect((await agent.exited).code).toBeGreaterThan(0)
  expect(agent.stderr).toMatch(sentence)
})

test('a cluster that refuses every write of hundreds of services fills no more than size times count', async () => {
  await using sim = await KubeSim.start()
  sim.faults.add({ on: { verb: ['patch', 'update', 'create'] }, times: Infinity, fault: { kind: 'status', code: 403 } })
  const name = (number: number): string => `${'service-with-a-long-name-'.repeat(2)}${number}`
  for (let number = 0; number < 300; number++) {
    const metadata = { name: name(number), namespace: 'default' }
    sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: `missing-${number}` } })
  }
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'agent.log')
  const args = [`--log-file=${file}`, '--log-file-size=64Ki', '--log-file-count=2', '--log-level=debug']
  await using agent = await AgentProcess.start({ kubeconfig: sim.kubeconfig(), args })
  await eventually(() => existsSync(`${file}.1`) && statSync(file).size > size / 2, { what: 'files to be renamed' })
  await agent.stop()
  expect(existsSync(`${file}.2`)).toBe(false)
  for (const one of [file, `${file}.1`]) expect(statSync(one).size).toBeLessThanOrEqual(size)
  const times = [`${file}.1`, file].flatMap(linesOf).map(({ ts }) => ts)
  expect(times).toEqual(times.toSorted())
})

const apiVersion = 'inference.llmkube.dev/v1alpha1'

/** Throws where a line is torn. */
const linesOf = (file: string): { readonly ts: string; readonly msg: string }[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { ts: string; msg: string })

const messages = (file: string): string[] => linesOf(file).map(({ msg }) => msg)
