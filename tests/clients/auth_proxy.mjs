// A proxy on loopback that adds a token to every request and changes nothing else, for clients that can't send one.
//
// Host and Origin arrive at the butler as the client sent them: whether those are refused is part of what is tested.

import http from 'node:http';

/** Starts the proxy on a free port. `butler` is `{url, token}`, looked at with each request. Gives `{port, close}`. */
export async function authProxy(butler) {
  const server = http.createServer((request, response) => {
    // Node would merge or drop some headers in `request.headers`; the raw list is what was sent.
    const headers = [];
    for (let i = 0; i < request.rawHeaders.length; i += 2) {
      const [name, value] = [request.rawHeaders[i], request.rawHeaders[i + 1]];
      if (!['authorization', 'connection', 'keep-alive'].includes(name.toLowerCase())) headers.push(name, value);
    }
    headers.push('Authorization', `Bearer ${butler.token}`);
    const { method, url: path } = request;
    const { hostname, port } = new URL(butler.url);
    const onward = http.request({ hostname, port, method, path, headers, setHost: false }, (answer) => {
      response.writeHead(answer.statusCode, answer.statusMessage, answer.headers);
      // Head and events go out when they come, not when the body is complete.
      response.flushHeaders();
      answer.on('error', () => response.destroy());
      answer.pipe(response);
    });
    onward.on('error', (error) => {
      if (response.headersSent) return response.destroy();
      response.writeHead(502, { 'content-type': 'text/plain' }).end(`auth_proxy: ${error.message}\n`);
    });
    // A client that goes away is gone for the butler too.
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { port: server.address().port, close };
}
