import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { StateFile, StateFileError } from '../../../src/agent-core/state/state-file.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const schema = z.object({ names: z.array(z.string()) })
const open = (file: string) =>
  StateFile.open({ file, schema, initial: { names: [] }, keeps: 'what was said', now: () => 7 })

test('changes come one after the other and outlive the agent', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'said.json')
  const first = await open(file)
  await Promise.all(['a', 'b', 'c'].map((name) => first.update(({ names }) => ({ names: [...names, name] }))))
  const second = await open(file)
  expect([first.value, second.value, second.notice]).toEqual([
    { names: ['a', 'b', 'c'] },
    { names: ['a', 'b', 'c'] },
    undefined,
  ])
})

test.each(['not JSON', '{"names":[1]}', ''])('a file with %j is set aside with a notice', async (content) => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'said.json')
  await writeFile(file, content)
  const opened = await open(file)
  expect([opened.value, opened.notice, await readdir(folder.dir), await readFile(`${file}.broken-7`, 'utf8')]).toEqual([
    { names: [] },
    `${file} could not be parsed and was set aside as said.json.broken-7: what was said is forgotten.`,
    ['said.json.broken-7'],
    content,
  ])
})

test('what the disk does not take has not changed, and the next change goes on from there', async () => {
  await using folder = await temporaryFolder()
  const inside = join(folder.dir, 'later')
  const file = join(inside, 'said.json')
  const opened = await open(file)
  await expect(opened.update(() => ({ names: ['lost'] }))).rejects.toThrow(StateFileError)
  expect(opened.value).toEqual({ names: [] })
  await mkdir(inside)
  await opened.update(({ names }) => ({ names: [...names, 'kept'] }))
  expect((await open(file)).value).toEqual({ names: ['kept'] })
})
