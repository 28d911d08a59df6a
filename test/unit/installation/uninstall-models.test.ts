import { chown, readdir, symlink } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { TraceKind } from '../../../src/contract/uninstall.ts'
import { listTraces, removeTraces } from '../../../src/installation/uninstall/traces.ts'
import { treeOf } from '../../support/tree-of.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'

const models = { chosen: new Set<TraceKind>(['models']), onStep: () => undefined }

type World = Awaited<ReturnType<typeof uninstallWorld>>

/** A model as the store keeps it. */
async function stored({ write }: World, store: string): Promise<void> {
  await write(path.join(store, '@/tiny/0123456789abcdef/model.gguf'), 'GGUF.')
}

const withoutDigests = async (folder: string) =>
  (await treeOf(folder)).map((line) => line.replace(/ [0-9a-f]{16}$/, ''))

test('models are listed with their sizes and stay unless they are chosen', async () => {
  await using there = await uninstallWorld()
  const store = path.join(there.home, '.local/share/metalbar/models')
  await stored(there, store)
  await there.write(path.join(store, '.metalbar/partials/sha-1'), '0123456789')
  const listed = await listTraces(await there.parts())
  expect(listed.map(({ kind, isChosen }) => [kind, isChosen])).toEqual([['models', false]])
  expect(listed[0]?.places.map(({ path: file, bytes }) => [path.relative(store, file), bytes])).toEqual([
    ['.metalbar', 10],
    ['@', 5],
  ])
  const [removal] = await removeTraces(await there.parts(), models)
  expect(removal?.isGone).toBe(true)
  expect(await readdir(path.join(there.home, '.local/share'))).toEqual([])
})

test('only what the agent fetched is removed: files of other programs and behind links stay and are named', async () => {
  await using there = await uninstallWorld()
  const store = there.at('store')
  await stored(there, store)
  await there.write(path.join(store, 'of-the-go-agent/model.gguf'), 'GGUF.')
  await stored(there, there.at('elsewhere'))
  await symlink(there.at('elsewhere/@'), path.join(store, '@linked'))
  const elsewhere = await treeOf(there.at('elsewhere'))
  const [removal] = await removeTraces(await there.parts({ stated: { modelStore: store } }), models)
  expect(await withoutDigests(store)).toEqual([
    `@linked -> ${there.at('elsewhere/@')}`,
    'of-the-go-agent/',
    'of-the-go-agent/model.gguf',
  ])
  expect(await treeOf(there.at('elsewhere'))).toEqual(elsewhere)
  for (const file of ['of-the-go-agent/model.gguf', '@linked']) {
    expect(removal?.message).toContain(`${path.join(store, file)} was not downloaded by Metalbar, so it stays.`)
  }
})

test('a store behind a link is emptied of what is ours; link and folder stay, and are named', async () => {
  await using there = await uninstallWorld()
  await stored(there, there.at('volume/models'))
  await symlink(there.at('volume/models'), there.at('store'))
  await there.write(
    path.join(there.stateDir, 'model-store.json'),
    JSON.stringify({ schema: 1, directory: there.at('volume/models') }),
  )
  const [removal] = await removeTraces(await there.parts({ stated: { modelStore: there.at('store') } }), models)
  expect(removal?.message).toContain(
    `${there.at('store')} is a link to ${there.at('volume/models')}; both folder and link stay.`,
  )
  expect([await readdir(there.at('volume')), await readdir(there.at('volume/models'))]).toEqual([['models'], []])
})

test('the store of another user is named, and nothing of it is removed', async (context) => {
  if (process.getuid?.() !== 0) context.skip('only root makes what is of another user')
  await using there = await uninstallWorld()
  const store = there.at('store')
  await stored(there, store)
  await chown(store, 4242, 4242)
  const before = await treeOf(store)
  const [listed] = await listTraces(await there.parts({ stated: { modelStore: store } }))
  expect([listed?.places, listed?.stays]).toEqual([[], [`${store} belongs to another user (4242).`]])
  await removeTraces(await there.parts({ stated: { modelStore: store } }), models)
  expect(await treeOf(store)).toEqual(before)
})
