import { execa } from 'execa'
import { chmod, mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { localRepairMs } from '../../../src/agent-core/models/errors.ts'
import { failure, filesBelow, gguf, request, startWorld, staying, type World } from './world.ts'

let world: World
let path: string
beforeEach(async () => {
  world = await startWorld()
  path = join(world.folder, 'My Model.gguf')
})
afterEach(async () => world[Symbol.asyncDispose]())

test('an absolute path and a file address are used in place, nothing is copied or changed', async () => {
  await writeFile(path, gguf('A'))
  const look = async (): Promise<unknown> => {
    const { ino, mtimeMs, ctimeMs, nlink } = await stat(path)
    return { ino, mtimeMs, ctimeMs, nlink }
  }
  const before = await look()
  const models = [path, pathToFileURL(path).href].map(async (source) => world.models.ensure(request(source), staying()))
  const model = { path, files: [path], sizeBytes: 4096, revision: expect.any(String) as string }
  expect([await Promise.all(models), await look(), await filesBelow(world.store)]).toEqual([[model, model], before, {}])
})

test('a file that is missing is named, and found once it is there', async () => {
  const failed = await failure(world.models.ensure(request(path), staying()))
  await writeFile(path, gguf('A'))
  expect([failed, await world.models.ensure(request(path), staying())]).toEqual([
    {
      kind: 'transient',
      reason: 'FileMissing',
      message: `${path} does not exist on this machine: put the model file there or change spec.source.`,
      retryAfterMs: localRepairMs,
    },
    { path, files: [path], sizeBytes: 4096, revision: expect.any(String) as string },
  ])
})

test('a folder without a model is named, and its one GGUF file is taken once it is there', async () => {
  await mkdir(path)
  const failed = await failure(world.models.ensure(request(path), staying()))
  await writeFile(join(path, 'm.gguf'), gguf('A'))
  expect([failed, await world.models.ensure(request(path), staying())]).toMatchObject([
    { kind: 'transient', reason: 'NoSuchFile', message: expect.stringContaining(path) as string },
    { path: join(path, 'm.gguf'), sizeBytes: 4096 },
  ])
})

test('a pipe is refused instead of being waited for', async () => {
  await execa('mkfifo', [path])
  expect(await failure(world.models.ensure(request(path), staying()))).toMatchObject({
    kind: 'terminal',
    reason: 'NotAFile',
  })
})

test('an empty file and a file that is no GGUF are named', async () => {
  const other = join(world.folder, 'other.gguf')
  await writeFile(path, '')
  await writeFile(other, '<html>')
  expect([
    await failure(world.models.ensure(request(path), staying())),
    await failure(world.models.ensure(request(other), staying())),
  ]).toEqual([
    {
      kind: 'transient',
      reason: 'EmptyFile',
      message: `${path} is empty: put the model file there.`,
      retryAfterMs: localRepairMs,
    },
    {
      kind: 'transient',
      reason: 'NotAModel',
      message: `${other} is not a GGUF file although its name says so: put a model file there.`,
      retryAfterMs: localRepairMs,
    },
  ])
})

test('a Model of a format that is not known here takes any model, and nothing that is none', async () => {
  const file = join(world.folder, 'model.bin')
  const wanted = { ...request(file), format: 'custom' }
  await writeFile(file, gguf('A'))
  expect(await world.models.ensure(wanted, staying())).toMatchObject({ path: file })
  await writeFile(file, 'just a text')
  expect((await failure(world.models.ensure(wanted, staying()))).message).toBe(
    `${file} is not a model of spec.format custom: put a model file there, or correct spec.source or spec.format.`,
  )
})

test('a projector that is no model is named with the format that it has to have', async () => {
  const [path, mmproj] = [join(world.folder, 'x.gguf'), join(world.folder, 'mmproj.bin')]
  await writeFile(path, gguf('A'))
  await writeFile(mmproj, 'no model')
  const failed = await failure(world.models.ensure({ ...request(path), mmproj }, staying()))
  expect(failed.message).toBe(
    `${mmproj} is not a model of spec.format gguf: put a model file there, or correct spec.mmproj.`,
  )
})

test('a file that this user may not read is named', async () => {
  await writeFile(path, gguf('A'))
  await chmod(path, 0)
  await chmod(world.folder, 0o755)
  const asOwner = process.geteuid?.()
  const nobody = 65534
  if (asOwner === 0) process.seteuid?.(nobody)
  try {
    expect(await failure(world.models.ensure(request(path), staying()))).toEqual({
      kind: 'transient',
      reason: 'FileUnreadable',
      message: `${path} is not readable by this user: change its permissions.`,
      retryAfterMs: localRepairMs,
    })
  } finally {
    if (asOwner === 0) process.seteuid?.(0)
  }
})
