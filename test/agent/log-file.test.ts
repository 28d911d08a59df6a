import { readFileSync } from 'node:fs'
import { rename, stat } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { AgentProcess } from '../support/agent-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

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

/** Throws where a line is torn. */
const linesOf = (file: string): { readonly ts: string; readonly msg: string }[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { ts: string; msg: string })

const messages = (file: string): string[] => linesOf(file).map(({ msg }) => msg)
