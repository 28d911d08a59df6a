import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readGgufHeader } from '../../../src/agent-core/models/gguf/file-header.ts'
import { GgufError } from '../../../src/agent-core/models/gguf/gguf.ts'
import { projectorAt } from '../../../src/agent-core/models/look.ts'
import { writeLlamaGguf } from '../../support/gguf-writer.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('a projector that is removed meanwhile is told in a sentence', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'mmproj.gguf')
  await expect(projectorAt(file, readGgufHeader)).rejects.toThrow(GgufError)
  await writeLlamaGguf(file)
  const header = await readGgufHeader(file)
  await rm(file)
  await expect(projectorAt(file, () => Promise.resolve(header))).rejects.toThrow(
    /mmproj\.gguf cannot be read \(ENOENT.*\): check the volume it is on\.$/,
  )
})
