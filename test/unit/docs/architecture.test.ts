import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'

const root = path.join(import.meta.dirname, '../../..')
const page = readFileSync(path.join(root, 'docs/architecture.md'), 'utf8')
const { floors, faces } = z
  .object({ floors: z.array(z.array(z.string())), faces: z.record(z.string(), z.array(z.string())) })
  .parse(createRequire(import.meta.url)(path.join(root, 'rooms.cjs')))

const foldersOf = (place: string): string[] =>
  readdirSync(path.join(root, place), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .toSorted()

test('docs/architecture.md names every room on the floor that the import rules give it, and no other', () => {
  const rooms = [...page.matchAll(/^- `([a-z-]+)\/` \(floor (\d)\)/gm)].map(([, room, floor]) => [room, Number(floor)])
  const ruled = floors.flatMap((names, floor) => names.map((name) => [name, floor + 1]))
  expect(rooms.toSorted()).toEqual(ruled.toSorted())
  expect(ruled.map(([name]) => name).toSorted()).toEqual(foldersOf('src/agent-core'))
})

test('docs/architecture.md names every folder of src', () => {
  const named = [...page.matchAll(/^- `src\/([a-z-]+)`/gm)].map(([, folder]) => folder)
  expect(named.toSorted()).toEqual(foldersOf('src'))
})

test('every file that docs/architecture.md names is there, and every face of a room', () => {
  const named = [...page.matchAll(/`([a-z-]+\/[a-z/-]+(?:\.ts|\/))`/g)].map(([, file]) => file ?? '')
  const ofFaces = Object.entries(faces).flatMap(([room, files]) => files.map((file) => `${room}/${file}.ts`))
  const places = ['src/agent-core', 'src/serve']
  const missing = [...named, ...ofFaces].filter(
    (file) => !places.some((place) => existsSync(path.join(root, place, file))) && file !== 'client/',
  )
  expect(named.length).toBeGreaterThan(10)
  expect(missing).toEqual([])
})
