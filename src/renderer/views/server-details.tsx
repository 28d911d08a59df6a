import type { ServiceView } from '../../contract/service.ts'
import { Command } from '../components/command.tsx'
import { useAnswer } from '../use-answer.ts'
import { serverWords } from '../words/services.ts'
import { Card } from './card.tsx'
import styles from './server-details.module.css'

/** What is too long for every snapshot: how the server was started, and what the last one that crashed printed last. */
export function ServerDetails({ service: { namespace, name, pid, crash } }: { readonly service: ServiceView }) {
  const { answer, problem } = useAnswer({ name: 'server', service: { namespace, name } }, [pid, crash?.at])
  const lines = answer?.crashLines ?? []
  return (
    <>
      {crash !== undefined && lines.length > 0 && (
        <Card title={serverWords.lastLines(lines.length)}>
          <pre className={styles['lines']} tabIndex={0} aria-label={serverWords.lastLines(lines.length)}>
            {lines.join('\n')}
          </pre>
        </Card>
      )}
      {answer?.commandLine !== undefined && (
        <Card title={serverWords.commandLine}>
          {answer.isUnquoted === true && <p className={styles['note']}>{serverWords.unquoted}</p>}
          <Command text={answer.commandLine} copyLabel={serverWords.copyCommandLine} />
        </Card>
      )}
      {problem !== undefined && <p className={styles['note']}>{problem}</p>}
    </>
  )
}
