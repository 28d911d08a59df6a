import { readGgufHeader } from '../src/agent-core/models/gguf/file-header.ts'

/** Reads the header of the file that it is given so many times and says how long each took. */
const [file = '', runs = '1'] = process.argv.slice(2)
const measured: number[] = []
while (measured.length < Number(runs)) {
  const beganAt = performance.now()
  await readGgufHeader(file)
  measured.push(performance.now() - beganAt)
}
process.stdout.write(JSON.stringify(measured))
