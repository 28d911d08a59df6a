import { answerControl } from './control.ts'
import electron from './electron.ts'

export * from './electron.ts'
export default electron

answerControl()
