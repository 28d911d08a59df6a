import type { ServiceView } from '../../contract/service.ts'
import { Command, CommandText } from '../components/command.tsx'
import { useAnswer } from '../use-answer.ts'
import { serverWords } from '../words/services.ts'
import { Card } from './card.tsx'
import styles from './server-details.module.css'

/** What is too long for every snapshot: how the server was started. */
export function ServerDetails({ service: { namespace, name, pid } }: { readonly service: ServiceView }) {
  const { answer, problem } = useAnswer({ name: 'server', service: { namespace, name } }, [pid])
  return (
    <>
      {answer?.commandLine !== undefined && (
        <Card title={serverWords.commandLine}>
          {answer.isUnquoted === true ? (
            <>
              <p className={styles['note']}>{serverWords.unquoted}</p>
              <CommandText text={answer.commandLine} />
            </>
          ) : (
            <Command text={answer.commandLine} copyLabel={serverWords.copyCommandLine} />
          )}
        </Card>
      )}
      {problem !== undefined && <p className={styles['note']}>{problem}</p>}
    </>
  )
}
