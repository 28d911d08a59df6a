import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Firewall } from '../../../src/agent-core/platform/platform.ts'
import { FirewallWatch } from '../../../src/agent-core/publishing/firewall-watch.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** A program that a link names, as Homebrew has it, and a firewall that answers what a test says. */
async function mac() {
  const folder = await temporaryFolder()
  const [file, link] = [join(folder.dir, 'llama-server-1.0'), join(folder.dir, 'llama-server')]
  await writeFile(file, '')
  await symlink(file, link)
  const facts = {
    ...{
      answer: { state: 'blocksAll' } as Firewall | undefined | Error,
      isServing: true,
      program: link as string | undefined,
    },
    ...{ asked: 0, changes: 0, warnings: [] as string[] },
  }
  const ignore = () => undefined
  const watch = new FirewallWatch({
    platform: {
      firewall: () => {
        facts.asked += 1
        return facts.answer instanceof Error ? Promise.reject(facts.answer) : Promise.resolve(facts.answer)
      },
    },
    program: () => Promise.resolve(facts.program),
    isServing: () => facts.isServing,
    log: { debug: ignore, info: ignore, error: ignore, warn: (message) => void facts.warnings.push(message) },
    onChange: () => void (facts.changes += 1),
  })
  const end = async () => {
    watch[Symbol.dispose]()
    await folder[Symbol.asyncDispose]()
  }
  return { watch, facts, file, [Symbol.asyncDispose]: end }
}

test('a firewall that does not allow the program is told once with what to do, and so is that it does', async () => {
  await using here = await mac()
  const { watch, facts, file } = here
  facts.answer = { state: 'byProgram', allowed: new Set() }
  await watch.look()
  await watch.look()
  expect(watch.notice).toContain(`does not allow ${file}, so Pods may get no answer`)
  expect([facts.changes, facts.warnings]).toEqual([1, ['the firewall blocks clients']])
  facts.answer = { state: 'byProgram', allowed: new Set([file]) }
  await watch.look()
  expect([watch.notice, facts.changes, facts.warnings.length]).toEqual([undefined, 2, 1])
})

test('a firewall that blocks everything is told whatever it allows, and one that is off or unknown is not', async () => {
  await using here = await mac()
  const { watch, facts } = here
  await watch.look()
  expect(watch.notice).toContain('blocks all incoming connections')
  for (const answer of [{ state: 'off' } as const, undefined]) {
    facts.answer = answer
    await watch.look()
    expect(watch.notice).toBeUndefined()
  }
  facts.answer = { state: 'blocksAll' }
  facts.program = undefined
  await watch.look()
  expect(watch.notice).toBeUndefined()
})

test('macOS is asked only while something serves, and where it does not answer that is told once and what was known stays', async () => {
  await using here = await mac()
  const { watch, facts } = here
  facts.isServing = false
  await watch.look()
  expect(facts.asked).toBe(0)
  facts.isServing = true
  await watch.look()
  facts.answer = new Error('socketfilterfw hangs')
  await watch.look()
  await watch.look()
  expect(watch.notice).toContain('blocks all')
  expect(facts.warnings).toEqual(['the firewall blocks clients', 'firewall not checked'])
  facts.answer = undefined
  await watch.look()
  facts.answer = new Error('socketfilterfw hangs again')
  await watch.look()
  expect(facts.warnings).toHaveLength(3)
})
